// A small reverse proxy in front of the leaves that hedges with a library: `failsafe`, or `hedgedhttp:DELAY`.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cristalhq/hedgedhttp"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
)

// triedKey is the context key of the leaves that copies of a request were sent to.
type triedKey struct{}

// fleet sends each copy to the leaf with the fewest outstanding copies among those that the request has not tried.
type fleet struct {
	sync.Mutex
	leaves      []string
	outstanding []int
	transport   http.Transport
}

func (f *fleet) acquire(tried map[int]bool) int {
	f.Lock()
	defer f.Unlock()
	best := -1
	for _, at := range rand.Perm(len(f.leaves)) {
		if !tried[at] && (best < 0 || f.outstanding[at] < f.outstanding[best]) {
			best = at
		}
	}
	f.outstanding[best]++
	tried[best] = true
	return best
}

func (f *fleet) release(at int) {
	f.Lock()
	defer f.Unlock()
	f.outstanding[at]--
}

// RoundTrip reads the whole response, so the first complete response wins.
func (f *fleet) RoundTrip(request *http.Request) (*http.Response, error) {
	at := f.acquire(request.Context().Value(triedKey{}).(map[int]bool))
	defer f.release(at)
	request = request.Clone(request.Context())
	request.URL.Host = f.leaves[at]
	response, err := f.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return response, err
}

// hedged returns the library's transport over the fleet. It sends at most one further copy of a request.
func hedged(name string, over *fleet) (http.RoundTripper, error) {
	if delay, ok := strings.CutPrefix(name, "hedgedhttp:"); ok {
		delay, err := time.ParseDuration(delay)
		if err != nil {
			return nil, err
		}
		return hedgedhttp.NewRoundTripper(delay, 2, over)
	}
	tenth := budget.NewBuilder().WithMaxRate(0.1).Build()
	policy := hedgepolicy.NewBuilderWithDelayQuantile[*http.Response](0.95, 100, 20).WithBudget(tenth).Build()
	return failsafehttp.NewRoundTripper(over, policy), nil
}

func main() {
	name, address, leaves := os.Args[1], os.Args[2], os.Args[3:]
	over := &fleet{leaves: leaves, outstanding: make([]int, len(leaves))}
	over.transport.MaxIdleConnsPerHost, over.transport.DisableCompression = 1024, true
	client, err := hedged(name, over)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := context.WithValue(r.Context(), triedKey{}, map[int]bool{})
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://leaf"+r.URL.RequestURI(), nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		response, err := client.RoundTrip(request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		w.Header().Set("content-length", fmt.Sprint(response.ContentLength))
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
	})))
}
