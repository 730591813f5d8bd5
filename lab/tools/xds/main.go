// A control plane that never rests: xds ADDRESS BOOTSTRAP serves the listener and the clusters of a
// configuration of Envoy to Envoys that ask for them (ADS), and changes something every second. The
// clusters get their hosts by EDS.
//
// In turn, a host leaves and comes back, a cluster is replaced, and the listener is replaced.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/load_balancing_policies/dynamic_modules/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

const node = "storm"

// The static resources of a configuration of Envoy.
type resources struct {
	Static struct {
		Listeners []json.RawMessage `json:"listeners"`
		Clusters  []json.RawMessage `json:"clusters"`
	} `json:"static_resources"`
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func read(text []byte, into proto.Message) { must(protojson.Unmarshal(text, into)) }

// The resources of a version.
func snapshot(from resources, version int) *cache.Snapshot {
	all := map[resource.Type][]types.Resource{}
	for _, text := range from.Static.Listeners {
		changed := fmt.Sprintf(`"stat_prefix": "http%d"`, version/4%2)
		text := strings.Replace(string(text), `"stat_prefix": "http"`, changed, 1)
		if !strings.Contains(text, changed) {
			log.Fatal("the listener has no stat_prefix to change")
		}
		one := &listener.Listener{}
		read([]byte(text), one)
		all[resource.ListenerType] = append(all[resource.ListenerType], one)
	}
	for _, text := range from.Static.Clusters {
		one := &cluster.Cluster{}
		read(text, one)
		hosts := one.LoadAssignment
		one.LoadAssignment = nil
		one.ClusterDiscoveryType = &cluster.Cluster_Type{Type: cluster.Cluster_EDS}
		one.EdsClusterConfig = &cluster.Cluster_EdsClusterConfig{EdsConfig: &core.ConfigSource{
			ResourceApiVersion:    core.ApiVersion_V3,
			ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
		}}
		one.ConnectTimeout = durationpb.New(time.Second + time.Duration(version/8%2)*time.Millisecond)
		all[resource.ClusterType] = append(all[resource.ClusterType], one)
		all[resource.EndpointType] = append(all[resource.EndpointType], without(hosts, version))
	}
	made, err := cache.NewSnapshot(fmt.Sprint(version), all)
	must(err)
	return made
}

// In odd versions, one of the hosts is gone.
func without(hosts *endpoint.ClusterLoadAssignment, version int) *endpoint.ClusterLoadAssignment {
	some := proto.Clone(hosts).(*endpoint.ClusterLoadAssignment)
	of := some.Endpoints[0]
	if version%2 == 1 {
		gone := version / 2 % len(of.LbEndpoints)
		of.LbEndpoints = append(of.LbEndpoints[:gone:gone], of.LbEndpoints[gone+1:]...)
	}
	return some
}

func main() {
	text, err := os.ReadFile(os.Args[2])
	must(err)
	var from resources
	must(json.Unmarshal(text, &from))
	snapshots := cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	must(snapshots.SetSnapshot(context.Background(), node, snapshot(from, 0)))
	serving := grpc.NewServer()
	made := server.NewServer(context.Background(), snapshots, nil)
	discovery.RegisterAggregatedDiscoveryServiceServer(serving, made)
	socket, err := net.Listen("tcp", os.Args[1])
	must(err)
	fmt.Println("listening on", socket.Addr())
	go func() {
		for version := 1; ; version++ {
			time.Sleep(time.Second)
			must(snapshots.SetSnapshot(context.Background(), node, snapshot(from, version)))
		}
	}()
	must(serving.Serve(socket))
}
