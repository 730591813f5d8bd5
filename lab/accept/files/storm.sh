#!/bin/sh
# storm.sh CURTAIL MODULE ENVOY STORM XDS POLICY WORKERS REQUESTS: sends REQUESTS through Envoy with the module to four servers
# (storm serve), while a control plane (xds) changes hosts, cluster or listener every second. Prints what the clients saw, what
# the module counted, what was left, and Envoy's memory after a fifth of the time and at the end, as key=value.
set -eu
curtail=$1 module=$2 envoy=$3 storm=$4 xds=$5 policy=$6 workers=$7 requests=$8
folder=$(mktemp -d)
port=$((20000 + $$ % 10000 * 2)) admin=$((port + 1)) control=$((port + 20001))
serving= controlling= running=
trap 'kill $serving $controlling $running 2> /dev/null || :; rm -rf "$folder"' EXIT
hosts=
for at in 1 2 3 4; do hosts="$hosts 127.0.0.$((at + 1)):$port"; done

cat > "$folder/proxy.toml" << END
[listen]
http = "127.0.0.1:$port"
admin = false
[[service]]
name = "storm"
policy = "$policy"
slots = 8
cancel = "reset"
health = false
idempotent_methods = ["GET", "PUT"]
[[service.shard]]
name = "0"
replicas = [$(printf '"%s",' $hosts)]
END
"$curtail" envoy --config "$folder/proxy.toml" > "$folder/envoy.json"
http2='"typed_extension_protocol_options":{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions":{"@type":"type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions","explicit_http_config":{"http2_protocol_options":{}}}}'
ads='{"ads":{},"resource_api_version":"V3"}'
cat > "$folder/boot.json" << END
{"node":{"id":"storm","cluster":"storm"},
"admin":{"address":{"socket_address":{"address":"127.0.0.1","port_value":$admin}}},
"dynamic_resources":{"lds_config":$ads,"cds_config":$ads,"ads_config":{"api_type":"GRPC","transport_api_version":"V3",
 "grpc_services":[{"envoy_grpc":{"cluster_name":"xds"}}]}},
"static_resources":{"clusters":[{"name":"xds","connect_timeout":"1s","type":"STATIC",$http2,"load_assignment":
 {"cluster_name":"xds","endpoints":[{"lb_endpoints":[{"endpoint":{"address":{"socket_address":{"address":"127.0.0.1","port_value":$control}}}}]}]}}]}}
END
"$storm" serve $hosts > /dev/null &
serving=$!
"$xds" "127.0.0.1:$control" "$folder/envoy.json" > /dev/null &
controlling=$!
export ENVOY_DYNAMIC_MODULES_SEARCH_PATH="${module%/*}"
"$envoy" -c "$folder/boot.json" --concurrency "$workers" -l error --disable-hot-restart --drain-time-s 2 > "$folder/log" 2>&1 &
running=$!
until curl --silent --max-time 1 --output /dev/null "http://127.0.0.1:$port/0"; do sleep 0.2; done

memory() { sed -n "s/VmRSS:[^0-9]*\([0-9]*\) kB/$1=\1/p" /proc/$running/status; }
stats() { curl --silent "http://127.0.0.1:$admin/stats"; }
sum() { stats | sed -n "s/.*curtail_$1\..*: \([0-9]*\)/\1/p" | paste -sd+ | bc; }
level() { stats | sed -n "s/^$1: \([0-9]*\)/\1/p"; }
"$storm" send "127.0.0.1:$port" 1 $((requests / 5)) 64 > /dev/null
memory early_kb
"$storm" send "127.0.0.1:$port" "$requests" "$requests" 64
# Statistics are passed on every second, and the last cancelled copies end.
sleep 4
memory late_kb
curl --silent "http://127.0.0.2:$port/seen"
echo
echo "started=$(sum copies_started) ended=$(sum copies_ended) updates=$(level listener_manager.lds.update_success)"
echo "waiting=$(sum queue_length) active=$(level cluster.storm.upstream_rq_active)"
kill -0 $running && echo alive=1
