#!/bin/sh
# instructions.sh CURTAIL PROXY REQUESTS: prints instructions=N, those of PROXY (curtail or haproxy) from its start to its
# end, while one client sends it REQUESTS requests one after the other on one connection. The difference between a longer
# and a shorter run is free of start and end.
set -eu
curtail=$1 proxy=$2 requests=$3
folder=$(mktemp -d)
backend=$((20000 + $$ % 20000)) port=$((backend + 20000))
nginx= callgrind=
trap 'kill $nginx $callgrind 2> /dev/null || :; rm -rf "$folder"' EXIT

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
nginx -p "$folder" -e stderr -c "$folder/nginx.conf" &
nginx=$!
cat > "$folder/curtail.toml" << END
[listen]
http = "127.0.0.1:$port"
workers = 1
admin = false
[log]
level = "error"
[[service]]
name = "servers"
policy = "psq"
slots = 4
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
  http-reuse always
  option forwardfor
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend clients
  bind 127.0.0.1:$port
  default_backend servers
backend servers
  balance leastconn
  server only 127.0.0.1:$backend maxconn 4
END
case $proxy in
    curtail) set -- "$curtail" proxy --config "$folder/curtail.toml" ;;
    haproxy) set -- haproxy -db -q -f "$folder/haproxy.cfg" ;;
esac
valgrind --log-file="$folder/log" --tool=callgrind --callgrind-out-file=/dev/null "$@" &
callgrind=$!
until curl --silent --output /dev/null "http://127.0.0.1:$port/"; do sleep 0.2; done
yes "http://127.0.0.1:$port/" | head -n "$requests" | xargs curl --silent --output /dev/null > /dev/null
kill -TERM $callgrind
wait $callgrind || :
sed -n 's/.*Collected : */instructions=/p' "$folder/log"
