# Writes schema and sample rows, by the cqlsh of Cassandra's image.
set -eu
{
  cat <<'CQL'
CREATE KEYSPACE IF NOT EXISTS shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
CREATE TABLE IF NOT EXISTS shop.products (id text PRIMARY KEY, name text, price double);
CQL
  awk 'BEGIN {
    for (i = 1; i <= 2000; i++)
      printf "INSERT INTO shop.products (id, name, price) VALUES (\047sku-%05d\047, \047Product %d\047, %.2f);\n", i, i, i / 10
  }'
} >/tmp/load.cql
cqlsh -f /tmp/load.cql cassandra-1
