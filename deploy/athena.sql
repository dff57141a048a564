-- Tables, views and queries of Athena, on the sidecar's lines in S3: docs/queries.md. Replace BUCKET.

-- name: table
-- Lines of an export task of CloudWatch Logs, or plain ones, as text. Choose this table, `batches` or `json-table`.
CREATE EXTERNAL TABLE truemem_log (text string)
PARTITIONED BY (day string)
ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.RegexSerDe'
WITH SERDEPROPERTIES ('input.regex' = '^(.*)$')
LOCATION 's3://BUCKET/logs/'
TBLPROPERTIES (
    'projection.enabled' = 'true',
    'projection.day.type' = 'date',
    'projection.day.format' = 'yyyy/MM/dd',
    'projection.day.range' = '2026/01/01,NOW',
    'storage.location.template' = 's3://BUCKET/logs/${day}'
);

-- name: batches
-- Batches of Firehose, decompressed, a newline after each record: make `table` as truemem_batches, then this view.
CREATE OR REPLACE VIEW truemem_log AS
SELECT json_extract_scalar(event, '$.message') AS text, day
FROM truemem_batches
CROSS JOIN UNNEST(CAST(json_extract(text, '$.logEvents') AS array(json))) AS events (event)
WHERE text LIKE '%logEvents%';

-- name: json-table
-- JSON alone on each line (Firehose with message extraction). Athena tells OutOfMemory from outOfMemory by the mapping.
CREATE EXTERNAL TABLE truemem_json (
    emf struct<begun:bigint>,
    begun_at string,
    function_name string,
    function_version string,
    environment_id string,
    request_id string,
    invocation bigint,
    status string,
    error_type string,
    duration_ms double,
    peak_rss double,
    peak_lower double,
    peak_upper double,
    current_rss double,
    baseline_rss double,
    init_peak_rss double,
    high_water_mark double,
    max_memory_used double,
    memory_limit double,
    method string,
    mode string,
    closed_by string,
    raced boolean,
    out_of_memory double,
    ran_out struct<signals:array<string>>,
    ending struct<level:double, growth_per_second:double, holder:struct<process:string>>,
    drift struct<verdict:string, per_invocation_kib:double, low:double, per_minute_kib:double>,
    holders struct<`function`:double, truemem:double, extensions:map<string,double>>,
    environment struct<used:double, source:string>,
    aggregate struct<invocations:double, peak_max:double>,
    report_missing boolean,
    dropped double,
    `schema` double
)
PARTITIONED BY (day string)
ROW FORMAT SERDE 'org.openx.data.jsonserde.JsonSerDe'
WITH SERDEPROPERTIES (
    'case.insensitive' = 'FALSE',
    'ignore.malformed.json' = 'TRUE',
    'use.null.for.invalid.data' = 'TRUE',
    'mapping.emf' = '_aws',
    'mapping.begun' = 'Timestamp',
    'mapping.begun_at' = 'timestamp',
    'mapping.function_name' = 'FunctionName',
    'mapping.function_version' = 'functionVersion',
    'mapping.environment_id' = 'environmentId',
    'mapping.request_id' = 'requestId',
    'mapping.error_type' = 'errorType',
    'mapping.duration_ms' = 'durationMs',
    'mapping.peak_rss' = 'PeakRSS',
    'mapping.peak_lower' = 'peakLower',
    'mapping.peak_upper' = 'peakUpper',
    'mapping.current_rss' = 'CurrentRSS',
    'mapping.baseline_rss' = 'baselineRSS',
    'mapping.init_peak_rss' = 'initPeakRSS',
    'mapping.high_water_mark' = 'highWaterMark',
    'mapping.max_memory_used' = 'MaxMemoryUsed',
    'mapping.memory_limit' = 'memoryLimit',
    'mapping.closed_by' = 'closedBy',
    'mapping.out_of_memory' = 'OutOfMemory',
    'mapping.ran_out' = 'outOfMemory',
    'mapping.growth_per_second' = 'growthPerSecond',
    'mapping.per_invocation_kib' = 'perInvocationKiB',
    'mapping.per_minute_kib' = 'perMinuteKiB',
    'mapping.peak_max' = 'peakMax',
    'mapping.report_missing' = 'reportMissing'
)
LOCATION 's3://BUCKET/logs/'
TBLPROPERTIES (
    'projection.enabled' = 'true',
    'projection.day.type' = 'date',
    'projection.day.format' = 'yyyy/MM/dd',
    'projection.day.range' = '2026/01/01,NOW',
    'storage.location.template' = 's3://BUCKET/logs/${day}'
);

-- name: view
-- Of truemem_log: all queries ask this view. `begun` is UTC without a zone: Athena can keep none in a view. A line inside
-- another member (`{"log": "..."}`): json_extract_scalar(text, '$.log') for substr(...), and no quotes in the two conditions.
CREATE OR REPLACE VIEW truemem AS
SELECT
    coalesce(
        date_add('millisecond', TRY_CAST(json_extract_scalar(line, '$._aws.Timestamp') AS bigint),
            TIMESTAMP '1970-01-01 00:00:00.000'),
        TRY_CAST(replace(replace(json_extract_scalar(line, '$.timestamp'), 'T', ' '), 'Z', '') AS timestamp)
    ) AS begun,
    json_extract_scalar(line, '$.FunctionName') AS function_name,
    coalesce(json_extract_scalar(line, '$.functionVersion'),
        NULLIF(regexp_extract(json_extract_scalar(line, '$.environmentId'), '\[([^\]]*)\]', 1), '')) AS function_version,
    json_extract_scalar(line, '$.environmentId') AS environment_id,
    json_extract_scalar(line, '$.requestId') AS request_id,
    TRY_CAST(json_extract_scalar(line, '$.invocation') AS bigint) AS invocation,
    coalesce(json_extract_scalar(line, '$.status'), IF(is_short, 'success')) AS status,
    json_extract_scalar(line, '$.errorType') AS error_type,
    TRY_CAST(json_extract_scalar(line, '$.durationMs') AS double) AS duration_ms,
    TRY_CAST(json_extract_scalar(line, '$.PeakRSS') AS double) AS peak_rss,
    TRY_CAST(coalesce(json_extract_scalar(line, '$.peakLower'),
        IF(is_short, json_extract_scalar(line, '$.PeakRSS'))) AS double) AS peak_lower,
    TRY_CAST(coalesce(json_extract_scalar(line, '$.peakUpper'),
        IF(is_short, json_extract_scalar(line, '$.PeakRSS'))) AS double) AS peak_upper,
    TRY_CAST(json_extract_scalar(line, '$.CurrentRSS') AS double) AS current_rss,
    TRY_CAST(coalesce(json_extract_scalar(line, '$.baselineRSS'),
        IF(is_short AND json_extract_scalar(line, '$.mode') = 'exact', json_extract_scalar(line, '$.CurrentRSS'))
    ) AS double) AS baseline_rss,
    TRY_CAST(json_extract_scalar(line, '$.initPeakRSS') AS double) AS init_peak_rss,
    TRY_CAST(json_extract_scalar(line, '$.highWaterMark') AS double) AS high_water_mark,
    TRY_CAST(json_extract_scalar(line, '$.MaxMemoryUsed') AS double) AS max_memory_used,
    TRY_CAST(json_extract_scalar(line, '$.memoryLimit') AS double) AS memory_limit,
    json_extract_scalar(line, '$.method') AS method,
    json_extract_scalar(line, '$.mode') AS mode,
    coalesce(json_extract_scalar(line, '$.closedBy'),
        IF(is_short, IF(json_extract_scalar(line, '$.mode') = 'exact', 'next-request', 'next-invoke'))) AS closed_by,
    json_extract_scalar(line, '$.raced') = 'true' AS raced,
    TRY_CAST(json_extract_scalar(line, '$.OutOfMemory') AS double) AS out_of_memory,
    json_extract_scalar(line, '$.outOfMemory.signals[0]') AS out_of_memory_signal,
    TRY_CAST(json_extract_scalar(line, '$.ending.level') AS double) AS ending_level,
    TRY_CAST(json_extract_scalar(line, '$.ending.growthPerSecond') AS double) AS ending_growth_per_second,
    json_extract_scalar(line, '$.ending.holder.process') AS ending_holder_process,
    json_extract_scalar(line, '$.drift.verdict') AS drift_verdict,
    TRY_CAST(json_extract_scalar(line, '$.drift.perInvocationKiB') AS double) AS drift_per_invocation_kib,
    TRY_CAST(json_extract_scalar(line, '$.drift.low') AS double) AS drift_low,
    TRY_CAST(json_extract_scalar(line, '$.drift.perMinuteKiB') AS double) AS drift_per_minute_kib,
    TRY_CAST(json_extract_scalar(line, '$.holders.function') AS double) AS function_holds,
    TRY_CAST(json_extract_scalar(line, '$.holders.truemem') AS double) AS truemem_holds,
    json_format(json_extract(line, '$.holders.extensions')) AS extensions_hold,
    TRY_CAST(json_extract_scalar(line, '$.environment.used') AS double) AS environment_used,
    json_extract_scalar(line, '$.environment.source') AS environment_source,
    TRY_CAST(json_extract_scalar(line, '$.aggregate.invocations') AS double) AS together,
    TRY_CAST(json_extract_scalar(line, '$.aggregate.peakMax') AS double) AS together_peak,
    json_extract_scalar(line, '$.reportMissing') = 'true' AS report_missing,
    TRY_CAST(json_extract_scalar(line, '$.dropped') AS double) AS dropped,
    day
FROM (
    SELECT line, json_extract_scalar(line, '$.schema') = '2' AS is_short, day
    FROM (
        SELECT substr(text, strpos(text, '{"')) AS line, day
        FROM truemem_log
        WHERE text LIKE '%"environmentId"%' AND text LIKE '%"schema"%'
    )
)
WHERE json_extract_scalar(line, '$.schema') IS NOT NULL;

-- name: json-view
-- Of truemem_json, with the same columns.
CREATE OR REPLACE VIEW truemem AS
SELECT
    coalesce(
        date_add('millisecond', emf.begun, TIMESTAMP '1970-01-01 00:00:00.000'),
        TRY_CAST(replace(replace(begun_at, 'T', ' '), 'Z', '') AS timestamp)
    ) AS begun,
    function_name,
    coalesce(function_version, NULLIF(regexp_extract(environment_id, '\[([^\]]*)\]', 1), '')) AS function_version,
    environment_id, request_id, invocation, coalesce(status, IF("schema" = 2, 'success')) AS status, error_type,
    duration_ms, peak_rss, coalesce(peak_lower, IF("schema" = 2, peak_rss)) AS peak_lower,
    coalesce(peak_upper, IF("schema" = 2, peak_rss)) AS peak_upper, current_rss,
    coalesce(baseline_rss, IF("schema" = 2 AND mode = 'exact', current_rss)) AS baseline_rss,
    init_peak_rss, high_water_mark, max_memory_used, memory_limit, method, mode,
    coalesce(closed_by, IF("schema" = 2, IF(mode = 'exact', 'next-request', 'next-invoke'))) AS closed_by,
    raced, out_of_memory,
    element_at(ran_out.signals, 1) AS out_of_memory_signal,
    ending.level AS ending_level,
    ending.growth_per_second AS ending_growth_per_second,
    ending.holder.process AS ending_holder_process,
    drift.verdict AS drift_verdict,
    drift.per_invocation_kib AS drift_per_invocation_kib,
    drift.low AS drift_low,
    drift.per_minute_kib AS drift_per_minute_kib,
    holders."function" AS function_holds,
    holders.truemem AS truemem_holds,
    json_format(CAST(holders.extensions AS json)) AS extensions_hold,
    environment.used AS environment_used,
    environment.source AS environment_source,
    aggregate.invocations AS together,
    aggregate.peak_max AS together_peak,
    report_missing,
    dropped,
    day
FROM truemem_json
WHERE "schema" IS NOT NULL AND environment_id IS NOT NULL;

-- name: parquet
-- If you ask often. Each day after: INSERT INTO truemem_parquet SELECT * FROM truemem WHERE day = '2026/11/22'
CREATE TABLE truemem_parquet
WITH (format = 'PARQUET', external_location = 's3://BUCKET/parquet/', partitioned_by = ARRAY['day']) AS
SELECT * FROM truemem WHERE day >= '2026/11/01';

-- name: the-one-plot
SELECT from_unixtime(floor(to_unixtime(begun) / 300) * 300) AS time, environment_id, max(current_rss) AS "current"
FROM truemem
WHERE current_rss IS NOT NULL AND closed_by <> 'shutdown'
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: peak-current-mark
SELECT from_unixtime(floor(to_unixtime(begun) / 300) * 300) AS time, environment_id,
    max(peak_rss) AS peak, max(current_rss) AS "current", max(max_memory_used) AS mark
FROM truemem
WHERE peak_rss IS NOT NULL
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: invocations
SELECT begun, environment_id, invocation, peak_rss, current_rss, max_memory_used, duration_ms, request_id
FROM truemem
WHERE peak_rss IS NOT NULL
ORDER BY environment_id, invocation
LIMIT 1000;

-- name: near-the-limit
SELECT begun, peak_rss / memory_limit * 100 AS percent, peak_rss, memory_limit, environment_id, invocation, request_id
FROM truemem
WHERE peak_rss / memory_limit >= 0.8
ORDER BY percent DESC
LIMIT 100;

-- name: failed
SELECT begun, status, error_type, peak_rss, high_water_mark, memory_limit, environment_id, invocation, request_id
FROM truemem
WHERE status <> 'success'
ORDER BY begun DESC
LIMIT 100;

-- name: out-of-memory
SELECT begun, out_of_memory_signal AS signal, status, ending_level, memory_limit, ending_growth_per_second,
    ending_holder_process, environment_id, invocation, request_id
FROM truemem
WHERE out_of_memory IS NOT NULL
ORDER BY begun DESC
LIMIT 100;

-- name: out-of-memory-once
SELECT count(DISTINCT request_id) AS invocations, count(DISTINCT environment_id) AS environments
FROM truemem
WHERE out_of_memory IS NOT NULL;

-- name: failures-by-kind
SELECT coalesce(error_type, status) AS kind, count(*) AS invocations, max(peak_rss) AS highest_seen
FROM truemem
WHERE status <> 'success'
GROUP BY 1
ORDER BY invocations DESC;

-- name: platform-out-of-memory
-- Of the platform's own lines, which only truemem_log has.
SELECT day, text
FROM truemem_log
WHERE regexp_like(text, 'Runtime\.OutOfMemory|signal: killed') AND text NOT LIKE '%"environmentId"%'
LIMIT 100;

-- name: drift
SELECT environment_id, count(*) AS lines, min_by(current_rss, invocation) AS first_rss,
    max_by(current_rss, invocation) AS last_rss, regr_slope(current_rss * 1024, invocation) AS slope_kib
FROM truemem
WHERE current_rss IS NOT NULL AND closed_by <> 'shutdown' AND invocation > 2
GROUP BY environment_id
HAVING count(*) >= 3
ORDER BY slope_kib DESC;

-- name: verdicts
SELECT environment_id, max_by(drift_verdict, invocation) AS verdict,
    max_by(drift_per_invocation_kib, invocation) AS per_invocation_kib, max_by(drift_low, invocation) AS low,
    max_by(drift_per_minute_kib, invocation) AS per_minute_kib, max(invocation) AS invocations
FROM truemem
WHERE drift_verdict IS NOT NULL
GROUP BY environment_id
ORDER BY per_invocation_kib DESC;

-- name: who-holds-the-memory
SELECT environment_id, max_by(function_holds, invocation) AS function_holds,
    max_by(truemem_holds, invocation) AS truemem_holds, max_by(extensions_hold, invocation) AS extensions_hold,
    max_by(environment_used, invocation) AS environment_used, max_by(environment_source, invocation) AS told_by,
    max(invocation) AS of_invocation
FROM truemem
WHERE truemem_holds IS NOT NULL AND closed_by <> 'shutdown'
GROUP BY environment_id;

-- name: one-extension
SELECT from_unixtime(floor(to_unixtime(begun) / 300) * 300) AS time, environment_id,
    max(CAST(json_extract_scalar(extensions_hold, '$["vendor-agent"]') AS double)) AS vendor_agent,
    max(function_holds) AS function_holds
FROM truemem
WHERE json_extract_scalar(extensions_hold, '$["vendor-agent"]') IS NOT NULL
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: how-exact
SELECT method, count(*) AS invocations, count(mode) AS in_exact_mode, count(raced) AS intervals,
    max(peak_upper - peak_lower) AS widest
FROM truemem
WHERE method IS NOT NULL
GROUP BY 1
ORDER BY invocations DESC;

-- name: not-exact
SELECT begun, method, peak_lower, peak_upper, peak_rss, environment_id, invocation, request_id
FROM truemem
WHERE method IS NOT NULL AND (raced OR method <> 'vmhwm' OR peak_upper IS NULL)
ORDER BY begun DESC
LIMIT 100;

-- name: together
SELECT from_unixtime(floor(to_unixtime(begun) / 300) * 300) AS time, environment_id,
    sum(together) AS invocations, max(together_peak) AS peak, max(high_water_mark) AS own_mark
FROM truemem
WHERE together IS NOT NULL
GROUP BY 1, 2
ORDER BY 1, 2;

-- name: lost
SELECT begun, environment_id, invocation, status, dropped, request_id
FROM truemem
WHERE report_missing OR dropped IS NOT NULL
ORDER BY begun DESC
LIMIT 100;

-- name: right-size
SELECT function_name, function_version AS version, count(*) AS invocations, approx_percentile(peak_rss, 0.5) AS p50,
    approx_percentile(peak_rss, 0.95) AS p95, approx_percentile(peak_rss, 0.99) AS p99, max(peak_rss) AS highest,
    max(max_memory_used) AS mark, max(environment_used) AS environment_used, max(memory_limit) AS size
FROM truemem
WHERE peak_rss IS NOT NULL
GROUP BY 1, 2;

-- name: cold-starts
SELECT function_name, function_version, count(*) AS starts, approx_percentile(init_peak_rss, 0.5) AS p50,
    max(init_peak_rss) AS highest
FROM truemem
WHERE init_peak_rss IS NOT NULL
GROUP BY 1, 2;
