#!/bin/sh
# module.sh CURTAIL MODULE ENVOY CONFIG: runs Envoy with Curtail as a module, from a configuration of `curtail proxy`.
set -eu
"$1" envoy --config "$4" > "$4.json"
export ENVOY_DYNAMIC_MODULES_SEARCH_PATH="${2%/*}"
exec "$3" --concurrency 1 --disable-hot-restart -l error -c "$4.json"
