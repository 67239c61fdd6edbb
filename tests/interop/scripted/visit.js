// A program of the client ali-ons from npm: sends what it is told, then prints what a push consumer gets, as JSON lines, until its
// standard input ends. Arguments: the folder of its packages, a name server, a topic, a group, bodies.
'use strict';

const { createRequire } = require('module');
const [, , folder, nameSrv, topic, group, ...bodies] = process.argv;
const from = createRequire(`${folder}/`);
const { Consumer, Message, Producer } = from('ali-ons');

// It waits 3 s for most answers, which are too few for a busy machine: then it sends once more what is stored, and if it could
// not learn at once who shares the topic, it consumes nothing. No option is for all of them.
const PATIENT_MS = 240_000;
const calls = from('ali-ons/lib/remoting_client').prototype;
const { invoke } = calls;
calls.invoke = function patient(address, command) {
  return invoke.call(this, address, command, PATIENT_MS);
};

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
