"""Starting, watching and ending processes. Nothing here knows a pipeline or a data directory.

- `ready`: the ready line, by which a started process says that it is up or why not: writer, reader, spawning with it.
- `guarded`: one life of a process tree under its guard.
- `supervise`: a child that is watched, and restarted with backoff when it dies.
- `guard`: the process between a parent and a child's tree; it ends the tree when the parent dies.
- `group`: the children of one parent: their lock, and the record on disk by which the next parent ends leftovers.
- `identity`: processes told apart by pid, start time and boot.
- `locks`: file locks that show whether a process lives.
- `descriptors`: the limit on open files, and descriptors reserved for the watchers of children.
- `ports`: free ports for servers that bind them later.
"""
