"""The process of a rank: it joins a group, runs jobs, and answers meanwhile."""
