"""The class run around nbgrader: read, check on the sealed wire, record, give back.

`python -m autograder --help` lists the commands; GUIDE.md tells an instructor's whole
way, THREATS.md what is protected from whom. This folder is the course: what belongs to
students and the gradebook lie in it, outside git.
"""
