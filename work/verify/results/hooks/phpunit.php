<?php
// Loaded in front of every PHP program below a command (auto_prepend_file). Where
// the program is phpunit it is asked to log its results into $REMIT_RESULTS as well.
(function () {
    $dir = getenv('REMIT_RESULTS');
    $argv = $_SERVER['argv'] ?? [];
    if ($dir === false || PHP_SAPI !== 'cli' || !isset($argv[0]) || !in_array(basename($argv[0]), ['phpunit', 'phpunit.phar'], true)) {
        return;
    }
    foreach ($argv as $word) {
        if ($word === '--log-junit' || strpos($word, '--log-junit=') === 0 || strpos($word, '--list-') === 0) {
            return;
        }
    }
    array_splice($argv, 1, 0, ['--log-junit', $dir . '/phpunit-' . getmypid() . '.xml']);
    $_SERVER['argv'] = $argv;
    $_SERVER['argc'] = count($argv);
    $GLOBALS['argv'] = $argv;
    $GLOBALS['argc'] = count($argv);
})();
