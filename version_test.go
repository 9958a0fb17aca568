package sluice_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/sluice-metrics/sluice"
)

// The version must be one that Helm, image tags and file names all take: no "v", no "+".
func TestVersionIsSemantic(t *testing.T) {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9a-z.]+)?$`).MatchString(sluice.Version) {
		t.Errorf("VERSION holds %q; must be a version such as 0.1.0 or 0.2.0-dev", sluice.Version)
	}
}

// The chart of a checkout, which nothing has packaged, installs the image of the same version.
func TestChartHasTheVersion(t *testing.T) {
	chart, err := os.ReadFile("charts/sluice/Chart.yaml")
	must(t, err)
	for _, field := range []string{"version", "appVersion"} {
		found := regexp.MustCompile(`(?m)^` + field + `: "?([^"\s]+)"?$`).FindSubmatch(chart)
		if found == nil || string(found[1]) != sluice.Version {
			t.Errorf("Chart.yaml: %s is %q; must be %s, as in VERSION", field, found, sluice.Version)
		}
	}
}

func TestChangelogHasTheVersion(t *testing.T) {
	text, err := os.ReadFile("CHANGELOG.md")
	must(t, err)
	if !regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(sluice.Version) + `\]`).Match(text) {
		t.Errorf("CHANGELOG.md has no section [%s]", sluice.Version)
	}
}
