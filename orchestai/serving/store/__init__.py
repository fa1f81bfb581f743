"""What servers keep in a database that they share: keys, money, served runs, feedback, parked runs."""

from orchestai.serving.store.database import UNREACHABLE, Database
from orchestai.serving.store.key_days import ExpiredReservationError
from orchestai.serving.store.keys import KeyAccount, KeyLedger, KeyStore
from orchestai.serving.store.served_runs import Feedback, FeedbackStore, ParkedRuns, ServedRun, ServedRuns, all_feedback
from orchestai.serving.store.tables import NO_KEY

__all__ = [
    "NO_KEY",
    "UNREACHABLE",
    "Database",
    "ExpiredReservationError",
    "Feedback",
    "FeedbackStore",
    "KeyAccount",
    "KeyLedger",
    "KeyStore",
    "ParkedRuns",
    "ServedRun",
    "ServedRuns",
    "all_feedback",
]
