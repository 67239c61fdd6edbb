"""A web service that stores orders before it answers: docs/web-frameworks.md.

Each worker process of the server runs `lifespan` for itself, so each has a client, sessions and a thread of its own.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response

import orbitmq


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with orbitmq.aio.connect() as client:
        app.state.producer = await client.producer()
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place(request: Request, response: Response) -> dict[str, int]:
    try:
        receipt = await request.app.state.producer.send("orders", await request.body())
    except orbitmq.errors.OrbitError:
        # Perhaps it was stored: whoever asks again may store it twice.
        response.status_code = 503
        return {"worker": os.getpid()}
    return {"worker": os.getpid(), "queue": receipt.queue, "offset": receipt.offset}
