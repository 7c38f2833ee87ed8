"""What torch's releases do to each op, recorded from their wheels: as data, as policies, and side by side.

The modules form a line, and each imports only what stands before it: records reads the data, pin turns a record into
the rows of a policy, comparison tells two policies, releases or devices apart.
"""
