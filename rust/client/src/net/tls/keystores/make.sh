#!/usr/bin/env bash
# Keystores and truststores as OpenSSL 3 and Java's keytool write them, for the tests beside this folder: one key and its
# chain in each. The key protects nothing.
set -euo pipefail
cd "$(dirname "$0")"
rm -f ./*.pem ./*.p12 ./*.jks
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
request() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$1.key" -subj "/CN=$2" "${@:3}"; }
request "$work/ca" authority -x509 -days 20000 -out "$work/ca.crt"
request "$work/other" "another authority" -x509 -days 20000 -out "$work/other.crt"
request "$work/client" anna -out "$work/client.csr"
openssl x509 -req -in "$work/client.csr" -CA "$work/ca.crt" -CAkey "$work/ca.key" -CAcreateserial -days 20000 -out "$work/client.crt"
cat "$work/client.crt" "$work/ca.crt" > "$work/chain"
cat "$work/chain" "$work/client.key" > client.pem
pkcs8() { cat "$work/chain" <(openssl pkcs8 -topk8 -in "$work/client.key" -passout pass:hunter2 "$@"); }
pkcs8 > client.encrypted.pem
pkcs8 -scrypt > client.scrypt.pem
cat "$work/chain" <(openssl ec -in "$work/client.key" -aes128 -passout pass:hunter2) > client.dek.pem
export() { openssl pkcs12 -export -in "$work/client.crt" -inkey "$work/client.key" -certfile "$work/ca.crt" -name anna -passout pass:hunter2 "$@"; }
export -out client.openssl.p12
export -certpbe PBE-SHA1-3DES -keypbe PBE-SHA1-3DES -macalg sha1 -out client.legacy.p12
copy() { keytool -importkeystore -noprompt -srckeystore client.openssl.p12 -srcstorepass hunter2 -deststorepass hunter2 "$@"; }
copy -destkeystore client.java.p12 -deststoretype PKCS12
copy -srcalias anna -srckeypass hunter2 -destkeypass hunter3 -destkeystore client.jks -deststoretype JKS
for store in "trust.jks JKS" "trust.p12 PKCS12"; do
  read -r file type <<< "$store"
  for authority in ca other; do
    keytool -importcert -noprompt -alias "$authority" -file "$work/$authority.crt" -keystore "$file" -storetype "$type" -storepass hunter2
  done
done
# Several keys: anna's, boris' of another authority and, in the JKS, with another password, and carla's of an authority with
# the name of the first. And a certificate that stands alone.
request "$work/twin" authority -x509 -days 20000 -out "$work/twin.crt"
sign() {
  request "$work/$1" "$1" -out "$work/$1.csr"
  openssl x509 -req -in "$work/$1.csr" -CA "$work/$2.crt" -CAkey "$work/$2.key" -CAcreateserial -days 20000 -out "$work/$1.crt"
  openssl pkcs12 -export -in "$work/$1.crt" -inkey "$work/$1.key" -certfile "$work/$2.crt" -name "$1" -passout pass:hunter2 -out "$work/$1.p12"
}
sign boris other
sign carla twin
cp client.openssl.p12 "$work/anna.p12"
add() { keytool -importkeystore -noprompt -srckeystore "$work/$1.p12" -srcstorepass hunter2 -srcalias "$1" -srckeypass hunter2 -deststorepass hunter2 "${@:2}"; }
for name in anna boris carla; do
  add "$name" -destkeystore several.p12 -deststoretype PKCS12
  add "$name" -destkeystore several.jks -deststoretype JKS -destkeypass "$([ "$name" = boris ] && echo hunter4 || echo hunter3)"
done
for store in "several.jks JKS" "several.p12 PKCS12"; do
  read -r file type <<< "$store"
  keytool -importcert -noprompt -alias alone -file "$work/other.crt" -keystore "$file" -storetype "$type" -storepass hunter2
done
