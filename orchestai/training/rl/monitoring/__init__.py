"""What a run of phase 2 reports, keeps and watches."""
