"""From token ids to text as they arrive: whole characters only, and never part of a stop."""
