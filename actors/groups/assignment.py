"""Who gets which queues: RocketMQ's average strategy, made sticky.

RocketMQ gives each of m members of a group n // m of a topic's n queues, and one more to the first n % m, as one run of
neighbours. Here each member gets as many, but not the same ones: a queue stays with its member as long as that member has no
more than its share, because every move costs the group a fence and perhaps repeated work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def assign(queues: int, members: Sequence[str], before: Mapping[int, str], load: Mapping[str, int]) -> dict[str, list[int]]:
    """Assigns queues 0 .. queues - 1 of one topic to its members.

    Args:
        members: in the order in which they joined.
        before: who has had which queue until now; names that are no members are ignored.
        load: queues of other topics that each member already has; decides who gets the odd ones.
    Returns: for each member its queues, ascending. If there is a member, every queue is in exactly one of the lists.
    """
    if not members:
        return {}
    kept: dict[str, list[int]] = {member: [] for member in members}
    for queue in range(queues):
        owner = before.get(queue)
        if owner in kept:
            kept[owner].append(queue)
    share, odd = divmod(queues, len(members))
    # The odd queues stay with the members that have most already, so that fewest move. After that they go to those that have
    # least of other topics.
    order = sorted(range(len(members)), key=lambda at: (-len(kept[members[at]]), load.get(members[at], 0), at))
    quota = {members[at]: share + (rank < odd) for rank, at in enumerate(order)}
    result = {member: kept[member][: quota[member]] for member in members}
    taken = {queue for held in result.values() for queue in held}
    free = [queue for queue in range(queues) if queue not in taken]
    for member in members:
        need = quota[member] - len(result[member])
        result[member] = sorted(result[member] + free[:need])
        free = free[need:]
    return result
