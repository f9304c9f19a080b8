// Confluent's client for Node.js: registers, writes and reads values, and prints what came of it as one line of JSON.
'use strict'
const {
  AvroDeserializer, AvroSerializer, JsonDeserializer, JsonSerializer, SchemaRegistryClient, SerdeType,
} = require('@confluentinc/schemaregistry')

async function main([url, theirs]) {
  const client = new SchemaRegistryClient({
    baseURLs: [url],
    basicAuthCredentials: { credentialsSource: 'USER_INFO', userInfo: 'anna:secret' },
  })
  const order = { type: 'record', name: 'Order', fields: [{ name: 'id', type: 'long' }] }
  const object = { type: 'object', properties: { id: { type: 'integer' } }, additionalProperties: false }
  const avroId = await client.register('avro-value', { schema: JSON.stringify(order), schemaType: 'AVRO' })
  const jsonId = await client.register('json-value', { schema: JSON.stringify(object), schemaType: 'JSON' })
  const settings = { autoRegisterSchemas: false, useLatestVersion: true }
  const avro = await new AvroSerializer(client, SerdeType.VALUE, settings).serialize('avro', { id: 7 })
  const json = await new JsonSerializer(client, SerdeType.VALUE, settings).serialize('json', { id: 8 })
  const deserializer = new AvroDeserializer(client, SerdeType.VALUE, {})
  let refused
  try {
    const user = { name: 'user', type: 'string' }
    const schema = JSON.stringify({ ...order, fields: [...order.fields, user] })
    await client.register('avro-value', { schema, schemaType: 'AVRO' })
  } catch (error) {
    refused = error.errorCode
  }
  return {
    ids: [avroId, jsonId],
    avro: avro.toString('base64'),
    json: json.toString('base64'),
    theirs: await deserializer.deserialize('avro', Buffer.from(theirs, 'base64')),
    back: await new JsonDeserializer(client, SerdeType.VALUE, {}).deserialize('json', json),
    subjects: await client.getAllSubjects(),
    versions: await client.getAllVersions('avro-value'),
    refused,
  }
}

main(process.argv.slice(2)).then(
  told => process.stdout.write(JSON.stringify(told) + '\n'),
  error => {
    process.stderr.write(`${error.stack}\n`)
    process.exitCode = 1
  },
)
