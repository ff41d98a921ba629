# SPDX-License-Identifier: Apache-2.0
"""A small training with DistributedDataParallel whose result depends on the seed alone, so that it
has to be the same over every net."""

import hashlib
import time

STEPS = 200
WIDTH = 1024  # of the layers: gradients of about 13 MB, several of DDP's buckets
REHEARSAL_WIDTH = 64
BATCH = 64


def train(session):
    """Writes the loss of each step and a digest of the parameters at the end."""
    torch = session.torch
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    width = WIDTH if session.cuda else REHEARSAL_WIDTH
    model = torch.nn.Sequential(
        torch.nn.Linear(128, width), torch.nn.ReLU(), torch.nn.Linear(width, width),
        torch.nn.ReLU(), torch.nn.Linear(width, 2 * width), torch.nn.ReLU(),
        torch.nn.Linear(2 * width, 10)).to(session.device)
    parallel = torch.nn.parallel.DistributedDataParallel(
        model, device_ids=[0] if session.cuda else None, bucket_cap_mb=4)
    optimizer = torch.optim.Adam(parallel.parameters(), lr=1e-3)
    # On the processor: the same numbers for every kind of GPU.
    numbers = torch.Generator().manual_seed(1000 + session.rank)
    teacher = torch.randn(128, 10, generator=torch.Generator().manual_seed(7))
    losses, start = [], time.monotonic()
    for _ in range(STEPS):
        inputs = torch.randn(BATCH, 128, generator=numbers)
        targets = (inputs @ teacher).argmax(dim=1).to(session.device)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(parallel(inputs.to(session.device)), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(bytes(parameter.detach().cpu().contiguous().view(-1).numpy().tobytes()))
    session.results.write("training", losses=losses, digest=digest.hexdigest(),
                          seconds=time.monotonic() - start)
