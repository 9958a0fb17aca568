package main

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

// bill lists what a binary was built of, as its own build record says: every module with its version, and the Go that
// compiled it, by the names (package URLs) under which holes are published. SPDX 2.3, JSON.
func bill(made release, p program) ([]byte, error) {
	build, err := buildinfo.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(binary)
	document := &spdx.Document{
		SPDXVersion:       spdx.Version,
		DataLicense:       spdx.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      fmt.Sprintf("sluice %s %s/%s", made.version, p.os, p.architecture),
		DocumentNamespace: fmt.Sprintf("%s/spdx/%s-%s-%s-%x", project, made.version, p.os, p.architecture, sum[:8]),
		CreationInfo: &spdx.CreationInfo{
			Created:  made.created.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "sluice-image"}},
		},
		Packages:      []*spdx.Package{product(made, build.Main.Path, hex.EncodeToString(sum[:]))},
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

// product is the package that the binary itself is.
func product(made release, modulePath, sum string) *spdx.Package {
	p := described("sluice", made.version, modulePath)
	p.PackageSPDXIdentifier = root
	p.PrimaryPackagePurpose = "APPLICATION"
	p.PackageDownloadLocation = "git+" + project
	if made.commit != "" {
		p.PackageDownloadLocation += "@" + made.commit
	}
	p.PackageLicenseDeclared = "Apache-2.0"
	p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	return p
}

// parts are the modules linked in, and the standard library.
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

// described is a package with what SPDX wants of each.
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
