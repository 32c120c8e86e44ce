"""Checkpoints: safetensors and JSON in directories that are whole or not there.

``format`` says what they look like, ``writing`` and ``saver`` make them, ``reading`` finds and checks them,
``faults`` rehearses the crashes.
"""

from whorl.runs.checkpoint.format import Manifest, SpoiltPieceError
from whorl.runs.checkpoint.reading import Checkpoint, find_checkpoints, load, load_latest, taking_over
from whorl.runs.checkpoint.saver import BackgroundSaver, SaveOutcome, SaveRequest, save
from whorl.runs.checkpoint.writing import CheckpointMeta, CheckpointWriter, Draft, DraftParts, attach_draft

__all__ = [
    "BackgroundSaver",
    "Checkpoint",
    "CheckpointMeta",
    "CheckpointWriter",
    "Draft",
    "DraftParts",
    "Manifest",
    "SaveOutcome",
    "SaveRequest",
    "SpoiltPieceError",
    "attach_draft",
    "find_checkpoints",
    "load",
    "load_latest",
    "save",
    "taking_over",
]
