// The bare Go loop that the relabel benchmark compares itself with: one Server-Side Apply per node, the same body and headers as
// shared/adapters/kubernetes.py sends, over net/http without any client library. It lists the nodes first and times only the patches.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type metadata struct {
	Name   string            `json:"name"`
	UID    string            `json:"uid"`
	Labels map[string]string `json:"labels,omitempty"`
}

type node struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
}

const accept = "application/json;as=PartialObjectMetadata%s;g=meta.k8s.io;v=v1"

func main() {
	server := flag.String("server", "", "https://host:port")
	token := flag.String("token", "", "bearer token")
	ca := flag.String("ca", "", "file with the CA's PEM")
	inFlight := flag.Int("in-flight", 16, "requests at a time")
	http1 := flag.Bool("http1", false, "HTTP/1.1 instead of HTTP/2")
	key := flag.String("key", "rack", "label key")
	value := flag.String("value", "r1", "label value")
	flag.Parse()

	client := newClient(*ca, *inFlight, *http1)
	nodes := list(client, *server, *token)
	work := make(chan metadata)
	var failures atomic.Int64
	var group sync.WaitGroup
	began, before := time.Now(), cpu()
	for range *inFlight {
		group.Go(func() {
			for one := range work {
				if !apply(client, *server, *token, one, *key, *value) {
					failures.Add(1)
				}
			}
		})
	}
	for _, one := range nodes {
		work <- one
	}
	close(work)
	group.Wait()
	seconds := time.Since(began).Seconds()
	if failures.Load() > 0 {
		fail(fmt.Errorf("%d of %d patches failed", failures.Load(), len(nodes)))
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"nodes": len(nodes), "seconds": seconds, "cpu": cpu() - before})
}

func newClient(ca string, inFlight int, http1 bool) *http.Client {
	pem, err := os.ReadFile(ca)
	if err != nil {
		fail(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool},
		MaxIdleConnsPerHost: inFlight,
		MaxConnsPerHost:     inFlight,
		ForceAttemptHTTP2:   !http1,
	}
	if http1 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func list(client *http.Client, server, token string) []metadata {
	request, _ := http.NewRequest("GET", server+"/api/v1/nodes", nil)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", fmt.Sprintf(accept, "List"))
	response, err := client.Do(request)
	if err != nil {
		fail(err)
	}
	defer response.Body.Close()
	var answer struct{ Items []struct{ Metadata metadata } }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		fail(err)
	}
	nodes := make([]metadata, 0, len(answer.Items))
	for _, item := range answer.Items {
		nodes = append(nodes, item.Metadata)
	}
	return nodes
}

func apply(client *http.Client, server, token string, one metadata, key, value string) bool {
	body, _ := json.Marshal(node{"v1", "Node", metadata{one.Name, one.UID, map[string]string{key: value}}})
	url := server + "/api/v1/nodes/" + one.Name + "?fieldManager=hullmark&force=true&fieldValidation=Strict"
	request, _ := http.NewRequest("PATCH", url, bytes.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Accept", fmt.Sprintf(accept, ""))
	request.Header.Set("Content-Type", "application/apply-patch+yaml")
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	var answer struct{ Metadata metadata }
	if json.NewDecoder(response.Body).Decode(&answer) != nil {
		return false
	}
	io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK && answer.Metadata.Labels[key] == value
}

func cpu() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
