"""Orders are charged, and tried again if that fails; who has not paid is reminded; what always fails is listed.

    orbitmq up --store ./data --detach             # the broker
    python order_service.py work                   # charges orders until Ctrl-C; start it as often as you like
    python order_service.py order ann coffee       # ann orders a coffee; menu.json says what there is
    python order_service.py dead                   # the screen of dead letters
    python order_service.py again 0                # letter 0 once more; without a number, all of them
"""

import json
import sys
import time
from pathlib import Path

import orbitmq

MENU, PAID = Path("menu.json"), Path("paid")  # {"coffee": 3}; a file for each customer who has paid


def order(client: orbitmq.Client, customer: str, item: str) -> None:
    body = json.dumps({"customer": customer, "item": item})
    with client.producer(durability="flushed") as producer:  # a send returns when it is on disk
        producer.send("orders", body, keys=customer)
        producer.send("reminders", body, keys=customer, delay=5)  # comes after 5 seconds


def handle(job: orbitmq.Job) -> None:
    asked = json.loads(job.body)
    customer, item, bill = asked["customer"], asked["item"], PAID / asked["customer"]
    if bill.exists():  # a job may come twice: what is paid is paid
        return
    price = json.loads(MENU.read_text()).get(item)
    if job.topic == "reminders":
        print(f"{customer} has not paid yet", flush=True)
    elif price is None:
        print(f"{customer}, try {job.delivery}: no {item}", flush=True)
        job.nack(delay=job.delivery, reason=f"{item} is not on the menu")  # again after 1 s, then after 2 s
    else:
        bill.write_text(str(price))
        print(f"{customer} has paid {price}", flush=True)


with orbitmq.connect(wait=10) as client:  # waits 10 s for a broker that is not there
    for topic in ("orders", "reminders"):
        client.create_topic(topic, queues=4)
    match sys.argv[1:]:
        case ["work"]:
            PAID.mkdir(exist_ok=True)
            with client.worker("shop", ["orders", "reminders"], concurrency=4, max_tries=3) as worker:
                worker.run(handle)
        case ["order", customer, item]:
            order(client, customer, item)
        case ["dead"]:
            for each in client.dead_letters("shop"):
                died = time.strftime("%H:%M:%S", time.localtime(each.died_ms / 1000))
                print(f"{each.offset:3}  {died}  {each.message.keys[0]:8}  {each.tries} tries: {each.reason}")
        case ["again", *letters]:
            print(len(client.dead_letters("shop").redrive([int(each) for each in letters] or None)), "sent again")
        case _:
            print(__doc__)
