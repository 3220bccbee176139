"""What keeps memories well while nobody looks: the daily clean-up."""
