"""A worker: takes slots of pipelines, and runs an instance of the pipeline for each.

An instance is a thread with a member of the pipeline's consumer group. The work itself is plain Spark jobs on one
shared context: a range of each partition that has records is read, filtered, mapped and inserted inside a task. A
streaming query per slot would cost 4 % of a core and 87 MB each while it is idle; an idle slot here costs a paused
consumer. The context schedules fairly by pipeline, but does not preempt: an attempt ends after seconds, whatever is
left of its range, and pipelines that fail share a quarter of the task slots.
"""
