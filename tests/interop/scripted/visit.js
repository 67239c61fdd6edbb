// A program of the client ali-ons from npm: sends what it is told, then prints what a push consumer gets, as JSON lines, until its
// standard input ends. Arguments: the folder of its packages, a name server, a topic, a group, bodies.
'use strict';

const { createRequire } = require('module');
const [, , folder, nameSrv, topic, group, ...bodies] = process.argv;
const { Consumer, Message, Producer } = createRequire(`${folder}/`)('ali-ons');

const show = (kind, said) => process.stdout.write(`${JSON.stringify({ kind, ...said })}\n`);
const logger = { info() {}, debug() {}, warn() {}, error: (...said) => console.error(...said) };
const common = { nameSrv, logger, httpclient: { request() { throw new Error('nobody asks by HTTP'); } } };

async function main() {
  const producer = new Producer({ ...common, producerGroup: group });
  await producer.ready();
  for (const body of bodies) {
    const message = new Message(topic, 'paid', body);
    message.keys = [`key-${body.slice(0, 9)}`];
    message.properties.colour = 'blå';
    const receipt = await producer.send(message);
    show('sent', { status: receipt.sendStatus, offset: receipt.queueOffset });
  }
  const consumer = new Consumer({ ...common, consumerGroup: group, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
  consumer.on('error', error => console.error(error));
  consumer.subscribe(topic, 'paid', async message => {
    const { tags, keys } = message;
    show('came', { body: message.body.toString(), tags, keys, colour: message.properties.colour });
  });
  process.stdin.resume();
  process.stdin.on('end', () => Promise.all([consumer.close(), producer.close()]).finally(() => process.exit(0)));
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
