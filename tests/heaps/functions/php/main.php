<?php
// A function in PHP that allocates as it is asked to: {"do": what, "mib": how much}, with a runtime client of its own.
require __DIR__ . '/Truemem.php';

$kept = [];
$handle = function (array $event, string $id) use (&$kept): void {
    try {
        $made = [];
        for ($n = 0; $n < $event['mib'] * 1024; $n++) {
            $made[] = str_repeat('x', 1000);
        }
        if ($event['do'] === 'leak') {
            $kept[] = $made;
        }
        if ($event['do'] === 'cycles') {
            $made['itself'] = &$made;
        }
        if ($event['do'] === 'empty') {
            array_map('unlink', glob(getenv('TMPDIR') . '/.truemem-heap-*'));
        }
        unset($made);
    } finally {
        Truemem::note($id);
    }
};

$api = 'http://' . getenv('AWS_LAMBDA_RUNTIME_API') . '/2018-06-01/runtime/invocation/';
while (true) {
    $event = json_decode(file_get_contents("{$api}next", false, stream_context_create(['http' => ['timeout' => 1e6]])), true);
    preg_match('/^Lambda-Runtime-Aws-Request-Id: *(\S+)/mi', implode("\n", $http_response_header), $found);
    $handle($event, $found[1]);
    $answer = ['method' => 'POST', 'content' => '{}', 'header' => 'Content-Type: application/json'];
    file_get_contents("{$api}{$found[1]}/response", false, stream_context_create(['http' => $answer]));
}
