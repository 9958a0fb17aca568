package chart

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	rbac "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// ofOperator are the labels that the Prometheus operator gives to a ServiceMonitor's target, beside
// job and instance.
var ofOperator = []string{"namespace", "service", "endpoint", "pod", "container", "node"}

// TestPushedMetricsAreOfTheirTarget: Prometheus renames a pushed label that the target has, too. That
// has to be job and instance, by which rules tell targets apart, and no other.
func TestPushedMetricsAreOfTheirTarget(t *testing.T) {
	for _, trusts := range []string{"false", "true"} {
		for _, what := range []string{"series", "groups"} {
			monitor := only[*monitoring.ServiceMonitor](t, strictly(t, mustRender(t, "",
				"serviceMonitor."+what+".enabled=true,serviceMonitor."+what+".honorLabels="+trusts)))
			endpoint := monitor.Spec.Endpoints[0]
			if endpoint.HonorLabels != (trusts == "true") {
				t.Errorf("%s, honorLabels %s: the endpoint has %v", what, trusts, endpoint.HonorLabels)
			}
			for _, label := range append(ofOperator, "job", "instance") {
				if dropped := drops(endpoint.RelabelConfigs, label); dropped != slices.Contains(ofOperator, label) {
					t.Errorf("%s: the target's label %s is dropped: %v", what, label, dropped)
				}
			}
		}
	}
}

func drops(all []monitoring.RelabelConfig, label string) bool {
	return slices.ContainsFunc(all, func(c monitoring.RelabelConfig) bool {
		return c.Action == "labeldrop" && regexp.MustCompile("^(?:"+c.Regex+")$").MatchString(label)
	})
}

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestDocumentedScrapesHonorNoLabels(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	must(t, err)
	scrapes := 0
	for _, page := range pages {
		for _, block := range yamlBlock.FindAllStringSubmatch(read(t, page), -1) {
			var of struct {
				Scrapes []struct {
					Job         string `json:"job_name"`
					HonorLabels bool   `json:"honor_labels"`
				} `json:"scrape_configs"`
			}
			if !strings.Contains(block[1], "scrape_configs:") {
				continue
			}
			must(t, yaml.Unmarshal([]byte(block[1]), &of))
			for _, scrape := range of.Scrapes {
				if scrape.Job == "pushgateway" { // a Pushgateway of the user's, before
					continue
				}
				scrapes++
				if scrape.HonorLabels {
					t.Errorf("%s: the job %s has honor_labels: any pod may push the job of another target", page, scrape.Job)
				}
			}
		}
	}
	if scrapes < 3 {
		t.Errorf("%d scrapes were found: the test does not see what it should", scrapes)
	}
}

// TestReadersOfSeriesShowACredential: without seriesByAddress, the role has no right that an address
// is enough for.
func TestReadersOfSeriesShowACredential(t *testing.T) {
	for byAddress, want := range map[string][]string{"true": {"get", "read"}, "false": {"get"}} {
		var role *rbac.ClusterRole
		for _, object := range strictly(t, mustRender(t, "", "readers.seriesByAddress="+byAddress)) {
			if one, ok := object.(*rbac.ClusterRole); ok && strings.HasSuffix(one.Name, "-series-reader") {
				role = one
			}
		}
		if role == nil || len(role.Rules) != 1 || !slices.Equal(role.Rules[0].Verbs, want) {
			t.Errorf("seriesByAddress %s: the role is %v, want the verbs %v", byAddress, role, want)
		}
	}
}
