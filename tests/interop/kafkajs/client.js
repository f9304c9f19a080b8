// KafkaJS, told what to do by lines of JSON; see Driver in ../process.py.
'use strict'
const readline = require('node:readline')
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')

const tell = line => process.stdout.write(JSON.stringify(line) + '\n')

// How to log in, as JSON; over an open connection and without a login if it is not given.
const security = process.env.KAFKAJS_SECURITY ? JSON.parse(process.env.KAFKAJS_SECURITY) : null

function login() {
  if (!security) return {}
  const { token, ...sasl } = security.sasl
  if (token) sasl.oauthBearerProvider = async () => ({ value: token })
  return { ssl: { ca: [security.ca] }, sasl }
}

const kafka = new Kafka({
  ...login(),
  clientId: 'interop',
  brokers: process.argv[2].split(','),
  logLevel: logLevel[process.env.KAFKAJS_LOG || 'INFO'],
  retry: { initialRetryTime: 50, retries: Number(process.env.KAFKAJS_RETRIES || 20), maxRetryTime: 500 },
  logCreator: () => ({ namespace, level, log }) =>
    process.stderr.write(`${JSON.stringify({ namespace, level, ...log })}\n`),
})
const admins = {}
const producers = {}
const consumers = {}
const transactions = {}

const text = data => (data === null || data === undefined ? null : data.toString())

async function connected(map, name, make) {
  if (!map[name]) {
    map[name] = make()
    await map[name].connect()
  }
  return map[name]
}

const commands = {
  async admin({ method, argument }) {
    return (await connected(admins, 'admin', () => kafka.admin()))[method](argument)
  },

  async produce({ topic, messages, acks = -1, compression = 'None', name = 'plain', settings = {}, transaction = false }) {
    const producer = await connected(producers, name, () => kafka.producer(settings))
    const batch = { topic, messages, acks, compression: CompressionTypes[compression] }
    if (!transaction) return producer.send(batch)
    transactions[name] = transactions[name] || (await producer.transaction())
    return transactions[name].send(batch)
  },

  async endTransaction({ name, how, offsets }) {
    const transaction = transactions[name]
    delete transactions[name]
    if (offsets) await transaction.sendOffsets(offsets)
    await transaction[how]()
  },

  async consume({ name, topics, fromBeginning = true, settings, run = {} }) {
    const consumer = await connected(consumers, name, () => {
      const made = kafka.consumer(settings)
      for (const event of ['GROUP_JOIN', 'HEARTBEAT', 'COMMIT_OFFSETS', 'REBALANCING', 'CRASH', 'STOP']) {
        made.on(made.events[event], ({ payload }) => {
          const error = payload && payload.error && String(payload.error)
          tell({ event, consumer: name, ...payload, error })
        })
      }
      made.on(made.events.REQUEST, ({ payload }) => tell({ event: 'REQUEST', consumer: name, api: payload.apiName }))
      return made
    })
    await consumer.subscribe({ topics, fromBeginning })
    await consumer.run({
      ...run,
      eachMessage: async ({ topic, partition, message }) =>
        tell({
          event: 'record',
          consumer: name,
          topic,
          partition,
          offset: Number(message.offset),
          key: text(message.key),
          value: text(message.value),
          headers: Object.fromEntries(Object.entries(message.headers || {}).map(([key, value]) => [key, text(value)])),
        }),
    })
  },

  async commit({ name, offsets }) {
    await consumers[name].commitOffsets(offsets)
  },

  async seek({ name, topic, partition, offset }) {
    consumers[name].seek({ topic, partition, offset })
  },

  async stop({ name }) {
    await consumers[name].disconnect()
    delete consumers[name]
  },
}

async function carryOut(line) {
  const { id, command, ...fields } = JSON.parse(line)
  try {
    tell({ id, ok: (await commands[command](fields)) ?? null })
  } catch (error) {
    process.stderr.write(`${command}: ${error.stack}\n`)
    tell({ id, error: error.type || error.name, message: error.message })
  }
}

readline.createInterface({ input: process.stdin }).on('line', carryOut).on('close', () => process.exit(0))
