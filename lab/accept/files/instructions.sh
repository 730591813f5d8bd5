#!/bin/sh
# instructions.sh CURTAIL PROXY [STREAMS KIND]: prints instructions=N, those that PROXY executes per request. It is curtail,
# haproxy, envoy (the program $ENVOY with its own router), or module:POLICY (Envoy with the library $MODULE). The requests
# are those of one client that sends one after the other on one connection. With the example `streams` and a KIND (sse or
# grpc), it counts those per event or message instead, with 50 streams of 10 per second (those of gRPC on one connection),
# and PROXY may be relay. Counts are differences between a longer and a shorter run, so they exclude startup and shutdown.
set -eu
curtail=$1 proxy=$2 streams=${3:-} kind=${4:-}
folder=$(mktemp -d)
backend=$((20000 + $$ % 20000)) port=$((backend + 20000))
server= callgrind=
trap 'kill $server $callgrind 2> /dev/null || :; rm -rf "$folder"' EXIT
slots=4 protocol= h2= verb= policy=psq
case $proxy in module:*) policy=${proxy#module:} ;; esac
case $kind in
    sse) slots=64 ;;
    grpc) slots=64 protocol='protocol = "grpc"' h2='proto h2' verb=-grpc ;;
esac

cat > "$folder/nginx.conf" << END
pid $folder/nginx.pid;
daemon off;
master_process off;
events { worker_connections 64; }
http {
  access_log off;
  keepalive_requests 1000000000;
  server {
    listen 127.0.0.1:$backend;
    location / { return 200 "ok\\n"; }
  }
}
END
cat > "$folder/curtail.toml" << END
[listen]
http = "127.0.0.1:$port"
workers = 1
admin = false
[log]
level = "error"
[[service]]
name = "servers"
policy = "$policy"
slots = $slots
$protocol
timeout = "60s"
health = false
[[service.shard]]
name = "0"
replicas = ["127.0.0.1:$backend"]
END
cat > "$folder/haproxy.cfg" << END
global
  nbthread 1
defaults
  mode http
  ${kind:+option http-no-delay}
  http-reuse always
  option forwardfor
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend clients
  bind 127.0.0.1:$port $h2
  default_backend servers
backend servers
  balance leastconn
  server only 127.0.0.1:$backend $h2 maxconn $slots
END
case $kind in
    '') nginx -p "$folder" -e stderr -c "$folder/nginx.conf" & ;;
    *) "$streams" serve$verb "127.0.0.1:$backend" 10 > /dev/null & ;;
esac
server=$!
case $proxy in
    curtail) set -- "$curtail" proxy --config "$folder/curtail.toml" ;;
    haproxy) set -- haproxy -db -q -f "$folder/haproxy.cfg" ;;
    envoy)
        sed "s/{port}/$port/; s/{port0}/$backend/; s/{tls}//; s/{upstream_protocol}/http_protocol_options/" \
            "$(dirname "$0")/wire-envoy.yaml" > "$folder/envoy.yaml"
        set -- "$ENVOY" --concurrency 1 --disable-hot-restart -l error -c "$folder/envoy.yaml"
        ;;
    module:*)
        "$curtail" envoy --config "$folder/curtail.toml" > "$folder/envoy.json"
        export ENVOY_DYNAMIC_MODULES_SEARCH_PATH="${MODULE%/*}"
        set -- "$ENVOY" --concurrency 1 --disable-hot-restart -l error -c "$folder/envoy.json"
        ;;
    relay) set -- "$streams" relay-grpc "127.0.0.1:$port" "127.0.0.1:$backend" ;;
esac

# run COUNT COMMAND: sets `instructions` to those of the command that serves COUNT requests, and `served` to COUNT. Of
# events or messages, `served` is the number that arrived.
run() {
    served=$1
    shift
    valgrind --log-file="$folder/log" --tool=callgrind --callgrind-out-file=/dev/null "$@" > /dev/null &
    callgrind=$!
    # curl ends with 7 if the connection is refused. It ends endless streams after a second.
    while sleep 0.2; do
        curl --silent --max-time 1 --output /dev/null "http://127.0.0.1:$port/" && break
        [ $? -eq 7 ] || [ -z "$kind" ] || break
    done
    if [ "$kind" ]; then
        "$streams" read$verb "127.0.0.1:$port" 50 $((served / 500)) ${verb:+50} > "$folder/read"
        served=$(sed 's/chunks=\([0-9]*\).*/\1/' "$folder/read")
    else
        yes "http://127.0.0.1:$port/" | head -n "$served" | xargs curl --silent --output /dev/null > /dev/null
    fi
    kill -TERM $callgrind
    wait $callgrind || :
    instructions=$(sed -n 's/.*Collected : *//p' "$folder/log")
}

if [ "$kind" ]; then short=2500 long=7500; else short=500 long=1500; fi
run $short "$@"
short=$served before=$instructions
run $long "$@"
echo "instructions=$(((instructions - before) / (served - short)))"
