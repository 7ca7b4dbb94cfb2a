"""Packing: any data set into any container, once, so that every epoch reads and decodes less.

| module | job |
|---|---|
| [options.py](options.py) | what can be asked for |
| [run.py](run.py) | from the first line to the last |
| [target.py](target.py) | what must not be overwritten; putting the result in its place |
| [plan.py](plan.py) | what is packed, and whether there is room |
| [contents.py](contents.py) | what becomes of one image |
| [records.py](records.py) | read, convert, check: what threads do |
| [pool.py](pool.py) | many threads, one order |
| [write.py](write.py) | the loop over a split |
| [writers/](writers/__init__.py) | one a container |
| [journal.py](journal.py) | how far it has come; going on after a crash |
| [verify.py](verify.py), [findings.py](findings.py) | reading everything back; what was found |
| [summary.py](summary.py), [speed.py](speed.py), [advice.py](advice.py) | what is said at the end |
"""
