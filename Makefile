# Four entry points: make run, make test, make bench, make package. Everything else is `cargo xtask` or `tieline`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: run test bench package packages
MAKEFLAGS += --no-print-directory

TARGET := $(or $(CARGO_TARGET_DIR),target)
TIELINE := $(TARGET)/release/tieline
CONSOLE := console/dist/index.html
VENV := .venv/.installed
NODE_BACNET := interop/peers/node_bacnet
OIDC_PROVIDER := interop/peers/oidc_provider

## run: a node with the demonstration substation, and its console at the address that it prints
run: $(CONSOLE)
	@bash .ci/step "build tieline" bash .ci/release $(TIELINE)
	@exec $(TIELINE) run --demo

## test: every check and every test, with real peers and a real browser
test: packages $(VENV) $(CONSOLE) sdk/typescript/node_modules/.package-lock.json $(NODE_BACNET)/node_modules/.package-lock.json $(OIDC_PROVIDER)/node_modules/.package-lock.json
	@bash .ci/step "FerretDB" bash .ci/ferretdb
	@bash .ci/step "nats-server" bash .ci/nats
	@bash .ci/step "nfpm" bash .ci/nfpm
	@bash .ci/test

## bench: every experiment in a shorter form, each beside a floor measured in the same run; below half an hour with the build
bench: $(CONSOLE)
	@bash .ci/step "build tieline" bash .ci/release $(TIELINE)
	@bash .ci/peers
	@bash .ci/bench $(TIELINE)

## package: deb, rpm, OCI image, symbols, list of components and checksums in target/packages; MINISIGN_KEY=FILE signs them
package: $(CONSOLE)
	@bash .ci/packages umoci:umoci minisign:minisign binutils:objdump xz-utils:xz
	@bash .ci/step "nfpm" bash .ci/nfpm
	@bash .ci/step "build tieline" bash .ci/release $(TIELINE)
	@packaging/build $(TIELINE) $(TARGET)/packages

# What the tests need of the system. Only what is absent is installed.
packages:
	@bash .ci/packages build-essential:cc cmake:cmake mosquitto:mosquitto mosquitto-clients:mosquitto_rr tshark:tshark iproute2:ip chromium:chromium \
		fonts-dejavu-core: libzmq3-dev: libmodbus-dev: pkg-config:pkg-config softhsm2:softhsm2-util curl:curl openssl:openssl prometheus:promtool prometheus-alertmanager:prometheus-alertmanager valgrind:valgrind \
		postgresql:pg_ctlcluster mariadb-server:mariadbd victoria-metrics:victoria-metrics \
		umoci:umoci minisign:minisign rpm:rpm shellcheck:shellcheck systemd:systemd-analyze zstd:zstd jq:jq sqlite3:sqlite3

$(VENV): interop/requirements.txt
	@bash .ci/step "python environment" python3 -m venv .venv
	@bash .ci/step "python peers" .venv/bin/pip install -q --disable-pip-version-check -r $<
	@touch $@

console/node_modules/.package-lock.json: console/package.json console/package-lock.json
	@bash .ci/step "console packages" npm --prefix console ci --no-audit --no-fund
	@touch $@

sdk/typescript/node_modules/.package-lock.json: sdk/typescript/package.json sdk/typescript/package-lock.json
	@bash .ci/step "TypeScript packages" npm --prefix sdk/typescript ci --no-audit --no-fund
	@touch $@

$(NODE_BACNET)/node_modules/.package-lock.json: $(NODE_BACNET)/package.json $(NODE_BACNET)/package-lock.json
	@bash .ci/step "node-bacnet" npm --prefix $(NODE_BACNET) ci --no-audit --no-fund

$(OIDC_PROVIDER)/node_modules/.package-lock.json: $(OIDC_PROVIDER)/package.json $(OIDC_PROVIDER)/package-lock.json
	@bash .ci/step "oidc-provider" npm --prefix $(OIDC_PROVIDER) ci --no-audit --no-fund
	@touch $@

CONSOLE_SOURCES := $(wildcard console/*.html console/*.ts console/*.mjs console/docs/* docs/*.md) $(shell find console/src console/public -type f 2>/dev/null)

$(CONSOLE): console/node_modules/.package-lock.json $(CONSOLE_SOURCES)
	@bash .ci/step "console" npm --prefix console run build
	@touch $@
