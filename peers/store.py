"""Reads a store with DuckDB and pyarrow, and checks types, folders, ids of stacks and sums.

Usage: store.py FOLDER. FOLDER is what the example `fleet` of tare-store wrote.
"""

import glob
import re
import sys
from datetime import timezone

import duckdb
import pyarrow.parquet

KINDS = {"timestamp[us, tz=UTC]", "int64", "int32", "string"}

folder = sys.argv[1]
tables = {"samples": "*/*/*", "frames": "*/*", "segments": "*/*"}
for table, pattern in tables.items():
    paths = glob.glob(f"{folder}/{table}/{pattern}.parquet")
    assert paths, f"no files of {table}"
    for path in paths:
        file = pyarrow.parquet.ParquetFile(path)
        kinds = {str(field.type) for field in file.schema_arrow}
        assert kinds <= KINDS, f"{path}: {kinds - KINDS}"
        assert file.metadata.metadata[b"tare.store.version"] == b"1", path
    hive = "hive_partitioning = true, hive_types_autocast = false"
    duckdb.sql(f"create view {table} as select * from read_parquet('{folder}/{table}/{pattern}.parquet', {hive})")

places = duckdb.sql("select distinct date, hour, strftime(\"window\" at time zone 'UTC', '%Y-%m-%d'), "
                    "strftime(\"window\" at time zone 'UTC', '%H') from samples").fetchall()
for date, hour, own_date, own_hour in places:
    assert isinstance(date, str) and isinstance(hour, str)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date) and date == own_date, (date, own_date)
    assert hour in (own_hour, "all"), (hour, own_hour)

summed = duckdb.sql("select sum(samples)::hugeint from samples").fetchall()[0]
stated = duckdb.sql("select sum(samples)::hugeint from segments where kind = 'window'").fetchall()[0]
assert summed == stated, (summed, stated)

duckdb.sql("""create view best as select * from (
  select *, row_number() over (
    partition by stack_id, depth
    order by function nulls last, file nulls last, line nulls last, module nulls last
  ) as place from frames
) where place = 1""")
unknown = duckdb.sql("select count(*) from samples where stack_id != 0 and not exists "
                     "(select 1 from best where best.stack_id = samples.stack_id and depth = 0)").fetchall()[0]
assert unknown == (0,), unknown
leaves = duckdb.sql("select count(*) from samples join best using (stack_id) "
                    "where depth = 0 and best.function is distinct from samples.function").fetchall()[0]
assert leaves == (0,), leaves
print(f"{summed[0]} samples in {len(places)} hours: types, folders, frames and sums as documented")
