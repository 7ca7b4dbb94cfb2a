"""`train bench`: the loaders people use and ours, beside one accelerator, on this machine.

| module | job |
|---|---|
| arms.py, options.py | the arms, and what can be asked for |
| plain.py | torch's DataLoader as people write it: the same pixels in the same order |
| chosen.py, loaders.py | the settings of our arms, by the tuner; the loader of an arm |
| child.py, jobs.py | one measurement in a process of its own, and how it is run |
| figures.py | medians, spread, ratios, the verdict |
| articles.py, table.py, plot.py, about.py | what is shown and written |
| progress.py, rounds.py, prepare.py | all in turn, what is seen meanwhile; data and pack |
| comparison.py, run.py | all of it, from the first line to the last |
"""
