"""What each release of torch does to each op inside of autocast: recorded from its wheel, checked against it."""
