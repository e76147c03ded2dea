"""What the process of a rank does: it joins a group, runs jobs, and answers."""
