package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// Item is one value of an external metric.
type Item struct {
	Labels map[string]string
	Value  float64
}

// External reads an external metric of namespace "e2e" as an autoscaler does. The error is the
// API's message.
func (s *Server) External(metric string) ([]Item, error) {
	body, err := s.get("/apis/external.metrics.k8s.io/v1beta1/namespaces/e2e/" + metric)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct {
			MetricLabels map[string]string `json:"metricLabels"`
			Value        string            `json:"value"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	items := make([]Item, len(list.Items))
	for i, item := range list.Items {
		value, err := parseQuantity(item.Value)
		if err != nil {
			return nil, err
		}
		items[i] = Item{item.MetricLabels, value}
	}
	sort.Slice(items, func(i, j int) bool { return fmt.Sprint(items[i].Labels) < fmt.Sprint(items[j].Labels) })
	return items, nil
}

// Pod reads a metric of a pod in namespace "e2e" as an autoscaler does.
func (s *Server) Pod(name, metric string) (float64, error) {
	body, err := s.get("/apis/custom.metrics.k8s.io/v1beta2/namespaces/e2e/pods/" + name + "/" + metric)
	if err != nil {
		return 0, err
	}
	var list struct {
		Items []struct {
			Value string `json:"value"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return 0, err
	}
	if len(list.Items) != 1 {
		return 0, fmt.Errorf("%d items: %s", len(list.Items), body)
	}
	return parseQuantity(list.Items[0].Value)
}

// Sum returns the sum of all items of an external metric, as an autoscaler computes it; NaN after
// an error.
func (s *Server) Sum(metric string) float64 {
	items, err := s.External(metric)
	if err != nil {
		return math.NaN()
	}
	sum := 0.0
	for _, item := range items {
		sum += item.Value
	}
	return sum
}

func (s *Server) get(path string) ([]byte, error) { return s.Get(path, "application/json") }

// Get reads a path of the metrics APIs in an encoding.
func (s *Server) Get(path, accept string) ([]byte, error) {
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, "https://"+s.API+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return body, err
}

// client returns a client that trusts only the server's own certificate authority.
func (s *Server) client() (*http.Client, error) {
	ca, err := os.ReadFile(filepath.Join(s.DataDir(), "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("ca.crt holds no certificate")
	}
	return &http.Client{Timeout: Patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}, nil
}

// parseQuantity parses Kubernetes' notation of numbers: "250m", "1k", "12e6".
func parseQuantity(s string) (float64, error) {
	digits := strings.TrimRight(s, "numkMGTPE")
	factor, ok := map[string]float64{
		"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	}[s[len(digits):]]
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !ok {
		return 0, fmt.Errorf("%q is no quantity", s)
	}
	return v * factor, nil
}
