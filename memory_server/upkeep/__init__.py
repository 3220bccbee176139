"""What keeps a data folder well: scheduled work, examinations, and repair."""
