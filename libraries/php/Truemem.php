<?php
// Adds the heap of a PHP function to truemem's line. It is one file, without dependencies, for PHP 7.4 or newer: copy it
// beside your handler.
//
//     require __DIR__ . '/Truemem.php';
//
//     return function ($event, $context) {            // Bref's function
//         try {
//             ...
//         } finally {
//             Truemem::note($context->getAwsRequestId());
//         }
//     };
//
// With Bref's FPM: Truemem::note(json_decode($_SERVER['LAMBDA_INVOCATION_CONTEXT'])->awsRequestId), as the last of all.
//
// note collects cycles (PHP knows at most 10,000 candidates), takes a reading, and writes it into a page that truemem's
// sidecar reads. The page's format is on truemem's page "The heap page". Outside Lambda it does nothing. Its errors do not
// reach the function.
final class Truemem
{
    private const PAGE = 4096;
    private const SLOT = 256; // bytes for each reading, by turns: truemem may look for one after later ones were written

    private static $file = null;
    private static $number = 0;

    /** Notes the heap for the invocation with this request id, which is about to end. */
    public static function note(string $requestId): void
    {
        if (!getenv('AWS_LAMBDA_RUNTIME_API') || !preg_match('/^[!-~]+$/D', $requestId)) {
            return;
        }
        try {
            if (self::opened()) {
                self::write($requestId);
            }
        } catch (\Throwable $error) {
        }
    }

    private static function write(string $requestId): void
    {
        gc_collect_cycles();
        $used = memory_get_usage() >> 10;
        if (!$used) {
            return; // USE_ZEND_ALLOC=0: all is malloc's
        }
        $number = ++self::$number;
        $members = "used=$used committed=" . (memory_get_usage(true) >> 10) . " live=$used collections=$number";
        if (preg_match('/^([1-9]\d*)([KMG]?)$/Di', (string) ini_get('memory_limit'), $found)) {
            $members .= ' limit=' . (($found[1] << ['' => 0, 'K' => 10, 'M' => 20, 'G' => 30][strtoupper($found[2])]) >> 10);
        }
        $time = (int) (microtime(true) * 1000);
        $text = "truemem-heap-3 $number $requestId $time php $members $number\n";
        if (strlen($text) <= self::SLOT && fseek(self::$file, $number * self::SLOT % self::PAGE) === 0) {
            fwrite(self::$file, $text);
        }
    }

    /** Makes the page, if it is not there or was removed. No other user can read it. */
    private static function opened(): bool
    {
        if (self::$file && fstat(self::$file)['nlink']) {
            return true;
        }
        $tmp = (string) getenv('TMPDIR');
        $folder = strpos($tmp, '/tmp/') === 0 && strpos($tmp, '..') === false ? rtrim($tmp, '/') : '/tmp';
        $path = "$folder/.truemem-heap-" . getmypid();
        $before = umask(0077);
        self::$file = @fopen($path, 'x'); // follows no link
        umask($before);
        if (self::$file) {
            return ftruncate(self::$file, self::PAGE);
        }
        // Under FPM each request begins anew, in the same process: it goes on in the page of the one before.
        if (!is_link($path)) {
            self::$file = fopen($path, 'r+');
            preg_match_all('/truemem-heap-3 (\d+) /', (string) fread(self::$file, self::PAGE), $found);
            self::$number = max([0, ...array_map('intval', $found[1])]);
        }
        return (bool) self::$file;
    }
}
