# `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# Each part takes all cores by itself, and two at once more memory than there is.
.NOTPARALLEL:

# One set of flags for everything: another one would compile Kubernetes again.
export CGO_ENABLED := 0

# The packages that import Google's SDK. go vet would read all of that, which
# takes a quarter of an hour and gigabytes. Asked only by the targets that want them.
GOOGLE = $(shell go list ./... | grep -E '^[^/]+/[^/]+/stockade(/stacks|/infra/gke|$$)')
REST = $(shell go list ./... | grep -vE '^[^/]+/[^/]+/stockade(/stacks|/infra/gke|$$)')

# Which systems are deployed: empty for the hardened Agent Sandbox alone, all, or
# profiles with commas between them.
PROFILES ?=
comma := ,

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# Nothing is vendored here. And git answers nothing in a checkout of somebody else's,
# such as a container's mount, where the go command would stop.
export GOFLAGS := $(filter-out -mod=%,$(GOFLAGS))
ifeq ($(VERSION),devel)
GOFLAGS += -buildvcs=false
endif
STOCKADE := bin/stockade
FUZZTIME ?= 20000x
FUZZ_DIRS ?= $(shell grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u)

# $(call slow,WHAT,COMMAND) runs what takes minutes where nothing is compiled yet, and
# says every ten seconds that it goes on.
define slow
@echo '$(2)'; \
(while sleep 10 > /dev/null 2>&1; do echo "   … $(1), $$SECONDS s"; done) & \
trap "kill $$! 2> /dev/null || true" EXIT; \
$(2)
endef

##@ The two commands

.PHONY: attack
attack: deploy ## Set everything up on this machine with Pulumi, attack it, and print the report
	$(STOCKADE) run --stack dev

.PHONY: test
test: ## Run the tests that need neither root nor a cluster
	go test $(REST)
	go test -vet=off $(GOOGLE)

##@ The place

.PHONY: doctor images up status down
doctor: build ## Say what this machine has, lacks, and how to mend it
	$(STOCKADE) doctor
images: build ## Build Kubernetes, gVisor, Cilium and the images, once
	$(STOCKADE) images build
up: build ## Bring up the sealed cluster, the range and the sandboxes
	$(STOCKADE) up $(if $(PROFILES),--profile $(PROFILES))
status: build ## Say what of it stands
	$(STOCKADE) status
down: build ## Remove all of it; images and reports are kept
	$(STOCKADE) down

##@ The place through Pulumi

.PHONY: pulumi plugins program
pulumi: images plugins program ## Build the Pulumi engine, its plugins and our program
	$(STOCKADE) images build --pulumi
plugins:
	$(call slow,building Pulumi's plugins,go build -o bin/ ./cmd/pulumi-language-go ./cmd/pulumi-resource-stockade ./cmd/policy)
program:
	$(call slow,building our Pulumi program with Google's SDK,go build -o bin/stockade-program .)

.PHONY: dev-stack preview deploy destroy
dev-stack: pulumi
	$(STOCKADE) pulumi -- stack select --create dev
preview: dev-stack ## Say what `make deploy` would change
	$(STOCKADE) pulumi -- preview -s dev
# With a refresh: `make down` takes the place away behind the stack's back.
deploy: dev-stack ## Bring up all of `make up`, as the Pulumi stack dev; PROFILES=all for all systems
	$(STOCKADE) pulumi -- up -s dev --yes --skip-preview --refresh \
	  $(if $(PROFILES),-c 'stockade:profiles=["$(subst $(comma),"$(comma)",$(PROFILES))"]')
destroy: dev-stack ## Remove the stack's resources, and with them the place
	$(STOCKADE) pulumi -- destroy -s dev --yes --skip-preview

##@ Proof

.PHONY: prove
prove: build ## Weaken one control after the other; every check has to notice
	$(STOCKADE) prove

.PHONY: prove-all
prove-all: build ## The same for every system that has mutants, after `make deploy PROFILES=all`; 25 minutes to an hour on two cores
	for p in agent-sandbox playground kode-gopher-local kode-gopher-shared; do $(STOCKADE) prove --scaffolds --profile $$p; done

# What takes minutes is left to LONG=, which does all: a hundred sessions at once, and
# whole runs in which the API server and the controller are restarted.
LONG ?= -skip 'TestAHundredSessionsOfFiveUsers|TestARunIsHonestWhateverIsRestartedInIt'

.PHONY: test-cluster
test-cluster: build ## Run the tests that need the cluster of `make deploy PROFILES=all`, as root
	go test -count=1 -timeout 45m -tags cluster $(LONG) ./conformance/e2e/... ./infra/node/engine/...

# What takes long is left to FAULTS=, which does all: a fault at each resource in
# turn, some five minutes a stack, of which CI does gke-shared, that has what the
# others have; and the objects of the other stacks in a real API server, two minutes each.
FAULTS ?= -skip 'TestASecondUpdateFinishesWhatAFaultStopped/^(gke|gke-autopilot)$$|TestAStackIsDeployedIntoItsClusterAndTakenAway'

.PHONY: test-pulumi
test-pulumi: pulumi ## Run the stacks for Google Cloud and the local provider by the real engine, against stand-ins
	STOCKADE_PULUMI="$$($(STOCKADE) pulumi --which)" go test -vet=off -count=1 -timeout 40m -tags pulumi $(FAULTS) ./stacks/enginetest/... ./infra/kind/provider/... ./infra/kube/kubetest/...

.PHONY: test-dev
test-dev: pulumi ## Run the stack dev through its whole life, as root; ends with nothing left
	go test -count=1 -timeout 45m -tags 'pulumi cluster' ./stacks/devtest/...

.PHONY: mutate-gke
mutate-gke: ## Remove one input of infra/gke after the other; the unit tests have to notice
	go run ./internal/gkemutate

.PHONY: fuzz
fuzz: ## Fuzz every fuzz target of FUZZ_DIRS (all) for FUZZTIME (20000x: so many inputs)
	@for dir in $(FUZZ_DIRS); do \
	  for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go | cut -c6-); do \
	    go test "$$dir" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) || exit 1; \
	  done; \
	done

##@ The code

.PHONY: build
build: ## Build bin/stockade
	$(call slow,building $(STOCKADE),go build -ldflags "-X github.com/stockade-dev/stockade/cli.Version=$(VERSION)" -o $(STOCKADE) ./cmd/stockade)

.PHONY: lint
lint: ## Check the format and what go vet finds
	test -z "$$(gofmt -l $$(git ls-files '*.go'))"
	go vet $(REST)
	go vet -tags cluster ./conformance/... ./workloads/... ./infra/node/engine/...

# Not the packages with Google's SDK: like go vet, it would read all of that. It
# takes folders and no import paths.
.PHONY: golangci
golangci: bin/golangci-lint ## Check with all linters of .golangci.yml; builds golangci-lint first
	bin/golangci-lint run --timeout 30m $(REST:github.com/stockade-dev/stockade/%=./%)

bin/golangci-lint: tools/dev/golangci-lint/go.mod
	cd tools/dev/golangci-lint && go build -o ../../../bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: pins
pins: ## Bring all modules to one version of what they share, after one was changed
	go run ./internal/pins

.PHONY: docs
docs: ## Write the generated part of docs, and the README's run
	go run ./internal/docsgen

.PHONY: clean
clean: ## Remove what was built here; `make down` first
	rm -rf bin out

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
