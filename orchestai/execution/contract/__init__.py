"""What a contract means for a run: worst cases, money set aside and spent, deadlines, forecasts and receipts."""
