package adapter

import (
	"fmt"

	"k8s.io/apimachinery/pkg/version"
	basecompatibility "k8s.io/component-base/compatibility"
)

// served is the version that /version tells. Clients parse it as a semantic version and choose by it how they
// talk, so it is that of the Kubernetes release whose library this is, to the minor: "v1.36.0+sluice". What
// stands behind the "+" takes no part in comparisons (semver.org, 10). The library would say
// "v0.0.0-master+$Format:%H$", which kubectl refuses, and a commit that is none.
type effectiveVersion struct {
	basecompatibility.EffectiveVersion
}

// Info implements EffectiveVersion.
func (s effectiveVersion) Info() *version.Info {
	info := s.EffectiveVersion.Info()
	if info == nil {
		return nil
	}
	release := s.BinaryVersion()
	info.GitVersion = fmt.Sprintf("v%d.%d.0+sluice", release.Major(), release.Minor())
	info.GitCommit = ""
	return info
}
