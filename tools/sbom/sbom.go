// Package sbom lists the modules of a Go binary as an SPDX 2.3 document, for scanners of
// vulnerabilities. The list comes from the binary's own build record.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	unsaid  = "NOASSERTION"
	project = "https://github.com/sluice-metrics/sluice"
	root    = common.ElementID("sluice")
)

// Product is a binary of a release.
type Product struct {
	Version, Commit  string
	Created          time.Time
	OS, Architecture string
	Path             string // path of the binary
}

// List returns the product's SPDX document as JSON: every linked module and the Go release, by
// package URL, under which vulnerabilities are published.
func List(p Product) ([]byte, error) {
	build, err := buildinfo.ReadFile(p.Path)
	if err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(p.Path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(binary)
	document := &spdx.Document{
		SPDXVersion:       spdx.Version,
		DataLicense:       spdx.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      fmt.Sprintf("sluice %s %s/%s", p.Version, p.OS, p.Architecture),
		DocumentNamespace: fmt.Sprintf("%s/spdx/%s-%s-%s-%x", project, p.Version, p.OS, p.Architecture, sum[:8]),
		CreationInfo: &spdx.CreationInfo{
			Created:  p.Created.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "sluice-release"}},
		},
		Packages:      []*spdx.Package{product(p, build.Main.Path, hex.EncodeToString(sum[:]))},
		Relationships: []*spdx.Relationship{relation("DOCUMENT", "DESCRIBES", root)},
	}
	for i, part := range parts(build) {
		id := common.ElementID(fmt.Sprintf("part-%d", i+1))
		part.PackageSPDXIdentifier = id
		document.Packages = append(document.Packages, part)
		document.Relationships = append(document.Relationships, relation(root, "DEPENDS_ON", id))
	}
	var text bytes.Buffer
	err = json.Write(document, &text, json.Indent(" "))
	return text.Bytes(), err
}

// product returns the package of the binary itself.
func product(p Product, modulePath, sum string) *spdx.Package {
	entry := described("sluice", p.Version, modulePath)
	entry.PackageSPDXIdentifier = root
	entry.PrimaryPackagePurpose = "APPLICATION"
	entry.PackageDownloadLocation = "git+" + project
	if p.Commit != "" {
		entry.PackageDownloadLocation += "@" + p.Commit
	}
	entry.PackageLicenseDeclared = "Apache-2.0"
	entry.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	return entry
}

// parts returns the linked modules and the standard library.
func parts(build *debug.BuildInfo) []*spdx.Package {
	version, _, _ := strings.Cut(strings.TrimPrefix(build.GoVersion, "go"), " ")
	all := []*spdx.Package{described("stdlib", version, "stdlib")}
	for _, module := range build.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		part := described(module.Path, module.Version, module.Path)
		part.PackageSourceInfo = "go.sum " + module.Sum
		all = append(all, part)
	}
	return all
}

// described returns a package with the fields that SPDX requires.
func described(name, version, modulePath string) *spdx.Package {
	return &spdx.Package{
		PackageName:             name,
		PackageVersion:          version,
		PackageDownloadLocation: unsaid,
		PackageLicenseConcluded: unsaid,
		PackageLicenseDeclared:  unsaid,
		PackageCopyrightText:    unsaid,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager,
			RefType:  common.TypePackageManagerPURL,
			// https://github.com/package-url/purl-spec: golang
			Locator: "pkg:golang/" + strings.ToLower(modulePath) + "@" + url.QueryEscape(version),
		}},
	}
}

func relation(from common.ElementID, kind string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{
		RefA:         common.DocElementID{ElementRefID: from},
		RefB:         common.DocElementID{ElementRefID: to},
		Relationship: kind,
	}
}
