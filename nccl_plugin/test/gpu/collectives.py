# SPDX-License-Identifier: Apache-2.0
"""The five collectives of a rank: what each sends, what has to arrive, and how long it takes."""

import os
import signal
import time

MOST_CALLS = 20
CYCLE_BYTES = 4 << 20
# Below 2^16, so that sums of all ranks are exact in float32. A prime: a block in the wrong place
# shows, since blocks are powers of two.
MODULUS = 65521


def values(session, count, rank, salt, start=0):
    """Elements start .. start + count of what `rank` contributes to a call."""
    torch = session.torch
    index = torch.arange(start, start + count, dtype=torch.int64, device=session.device)
    return ((index * 31 + (rank * 1009 + salt * 131)) % MODULUS).to(torch.float32)


class Collective:
    """A collective of `count` float32 elements, the larger one of input and output."""

    def __init__(self, session, count):
        self.session, self.count = session, count
        self.part = count // session.ranks  # elements per rank where they are shared out
        self.calls = 0
        self.input = self.output = None

    def fill(self, salt):
        """New input; an output that can't be right by chance."""
        self.calls = 0
        self.input, out_count = self.sent(salt)
        self.output = self.session.torch.full((out_count,), -1.0, device=self.session.device)

    def wrong(self, salt):
        """How many elements of the output are not what they have to be."""
        wrong, length, pieces = 0, 0, self.expected(salt)
        for piece in pieces:
            got = self.output[length:length + piece.numel()]
            wrong += int((got != piece).sum().item())
            length += piece.numel()
        return wrong + abs(self.output.numel() - length)

    def mine(self, salt, rank=None, count=None, start=0):
        rank = self.session.rank if rank is None else rank
        return values(self.session, self.count if count is None else count, rank, salt, start)

    def sum_of_all(self, salt, count, start=0):
        total = self.mine(salt, 0, count, start)
        for rank in range(1, self.session.ranks):
            total += self.mine(salt, rank, count, start)
        return total


class AllReduce(Collective):
    """In place, so that each further call multiplies the sum by the number of ranks: an error of
    any call stays to be seen. Exact for 2 and 4 ranks."""

    def fill(self, salt):
        self.calls = 0
        self.output = self.mine(salt)

    def call(self):
        self.session.dist.all_reduce(self.output)
        self.calls += 1

    def expected(self, salt):
        total = self.sum_of_all(salt, self.count)
        return [total * float(self.session.ranks ** (self.calls - 1))]


class AllGather(Collective):
    def sent(self, salt):
        return self.mine(salt, count=self.part), self.count

    def call(self):
        dist = self.session.dist
        if self.session.cuda:
            dist.all_gather_into_tensor(self.output, self.input)
        else:  # gloo lacks some calls
            dist.all_gather(list(self.output.chunk(self.session.ranks)), self.input)

    def expected(self, salt):
        return [self.mine(salt, rank, self.part) for rank in range(self.session.ranks)]


class ReduceScatter(Collective):
    def sent(self, salt):
        return self.mine(salt), self.part

    def call(self):
        dist = self.session.dist
        if self.session.cuda:
            dist.reduce_scatter_tensor(self.output, self.input)
        else:
            total = self.input.clone()
            dist.all_reduce(total)
            self.output.copy_(total.chunk(self.session.ranks)[self.session.rank])

    def expected(self, salt):
        return [self.sum_of_all(salt, self.part, self.session.rank * self.part)]


class AllToAll(Collective):
    def sent(self, salt):
        return self.mine(salt), self.count

    def call(self):
        self.session.dist.all_to_all_single(self.output, self.input)

    def expected(self, salt):
        start = self.session.rank * self.part
        return [self.mine(salt, rank, self.part, start) for rank in range(self.session.ranks)]


class SendRecv(Collective):
    """To the next rank, from the one before."""

    def sent(self, salt):
        return self.mine(salt), self.count

    def call(self):
        dist, rank, ranks = self.session.dist, self.session.rank, self.session.ranks
        both = [dist.P2POp(dist.isend, self.input, (rank + 1) % ranks),
                dist.P2POp(dist.irecv, self.output, (rank - 1) % ranks)]
        for request in dist.batch_isend_irecv(both):
            request.wait()

    def expected(self, salt):
        return [self.mine(salt, (self.session.rank - 1) % self.session.ranks)]


ALL = {"all_reduce": AllReduce, "all_gather": AllGather, "reduce_scatter": ReduceScatter,
       "all_to_all": AllToAll, "send_recv": SendRecv}


def elements(size, ranks):
    """Elements for `size` bytes: at least one for each rank, and as many for each."""
    return -(-size // (4 * ranks)) * ranks


def timed(session, collective, calls):
    """Seconds for so many calls, one after the other."""
    session.meet()
    start = time.monotonic()
    for _ in range(calls):
        collective.call()
    session.wait()
    return time.monotonic() - start


def measure(session):
    """Each collective at each size: once, checked; then as often as the time allows, and checked
    again with other contents. Rank 0 says how often, or that time is up (0)."""
    sizes = session.task["sizes"]
    cells = [(size, name) for size in sizes for name in ALL]
    for name in ALL:  # NCCL connects at the first call of each kind
        first = ALL[name](session, elements(sizes[0], session.ranks))
        first.fill(0)
        first.call()
        session.wait()
    for number, (size, name) in enumerate(cells):
        count = elements(size, session.ranks)
        collective = ALL[name](session, count)
        salt = 2 * number + 1
        collective.fill(salt)
        once = timed(session, collective, 1)
        wrong = collective.wrong(salt)
        left = session.task["seconds"] - session.elapsed()
        share = 0.5 * left / (len(cells) - number)
        calls = session.agree(f"calls/{number}", 0 if left < once else
                              max(1, min(MOST_CALLS, int(share / once))))
        if calls:
            collective.fill(salt + 1)
            once = timed(session, collective, calls) / calls
            wrong += collective.wrong(salt + 1)
        session.results.write("row", op=name, size=size, bytes=4 * count, calls=calls + 1,
                              seconds=once, wrong=wrong)
        del collective
        if not calls and number + 1 < len(cells):
            session.results.write("time_is_up", left_out=len(cells) - number - 1)
            return


def cycles(session):
    """All collectives again and again, each call checked, while something fails and returns."""
    count, number = elements(CYCLE_BYTES, session.ranks), 0
    kinds = {name: kind(session, count) for name, kind in ALL.items()}
    while session.agree(f"go/{number}", session.elapsed() < session.task["seconds"]):
        wrong, seconds = 0, 0.0
        for collective in kinds.values():
            collective.fill(number)
            seconds += timed(session, collective, 1)
            wrong += collective.wrong(number)
        session.results.write("cycle", at=session.elapsed(), seconds=seconds, wrong=wrong,
                              bytes=4 * count * len(kinds))
        number += 1


def cycles_until_death(session):
    """Like cycles(), but the last rank dies in the middle, and the others have to notice."""
    collective, number = AllReduce(session, elements(CYCLE_BYTES, session.ranks)), 0
    while True:
        if session.rank == session.ranks - 1 and session.elapsed() > 0.5 * session.task["seconds"]:
            session.results.write("dies", at=session.elapsed())
            os.kill(os.getpid(), signal.SIGKILL)
        collective.fill(number)
        timed(session, collective, 1)
        number += 1
