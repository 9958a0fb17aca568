package ruletest

import (
	"os"
	"path/filepath"
	"testing"
)

// Busy is a file of two rules: one computes busy_ratio in shop, the other renames in all namespaces.
const Busy = `apiVersion: sluice.dev/v1alpha1
kind: MetricRule
metadata: {name: busy, namespace: shop}
spec:
  metric: busy_ratio
  let: {busy: busy_workers, total: "total_workers:last"}
  value: "total > 0.0 ? busy / total : 0.0"
---
apiVersion: sluice.dev/v1alpha1
kind: ClusterMetricRule
metadata: {name: per-second}
spec:
  rename: {from: "(.*)_total", to: "${1}_per_second"}
`

// File writes a file of rules, and returns its path.
func File(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
