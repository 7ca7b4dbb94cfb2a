"""Watches a run from another terminal: `python -m train.monitor`.

```
runs.py      which runs go on, by the lock of their folder
look.py      one look: status.json, processes, the machine -> Snapshot
screen.py    Snapshot -> what is shown
__main__.py  once a second, until q
```

It only reads. Nothing in it can end the run, and it needs nothing of torch.
"""
