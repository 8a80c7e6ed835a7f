"""A Terraform provider that knows schemas and reaches nothing: `init`, `validate`, `plan` and `test` run with it offline.

It stands in for hashicorp/google where the registry cannot be reached, and lets tests look at what the configuration evaluates to.
What it cannot do is check values: that a region exists, that a role does.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import msgspec

HERE = Path(__file__).resolve().parent
NESTED_LIST, NESTED_SET = 2, 3
BLOCK = re.compile(r"^(\w+)\[(\d)\.\.(\d|\*)\]$")


def typed(text: str) -> Any:
    """`list(string)` as Terraform writes types: `["list", "string"]`."""
    outer, _, inner = text.rstrip(")").partition("(")
    return [outer, inner] if inner else outer


def block(messages: Any, fields: dict[str, Any]) -> Any:
    """One schema block of the protocol."""
    made = messages.Schema.Block()
    for key, value in fields.items():
        if nested := BLOCK.match(key):
            made.block_types.add(
                type_name=nested[1],
                block=block(messages, value),
                nesting=NESTED_LIST,
                min_items=int(nested[2]),
                max_items=0 if nested[3] == "*" else int(nested[3]),
            )
        else:
            name = value.rstrip("!?=~")
            made.attributes.add(
                name=key,
                type=json.dumps(typed(name)).encode(),
                required="!" in value,
                optional="?" in value,
                computed="=" in value,
            )
    return made


def filled(fields: dict[str, Any], values: dict[str, Any], answers: dict[str, Any]) -> dict[str, Any]:
    """`values` with what is computed and was not given. Blocks of which there is one take a dictionary of answers."""
    out = dict(values)
    for key, value in fields.items():
        if nested := BLOCK.match(key):
            out[nested[1]] = [filled(value, item, answers.get(nested[1], {})) for item in values.get(nested[1]) or []]
        elif "=" in value and (values.get(key) is None or isinstance(values[key], msgspec.msgpack.Ext)):  # Ext: not known yet
            out[key] = answers.get(key)
    return out


class Provider:
    """The calls that Terraform makes, by name."""

    def __init__(self, messages: Any, resources: dict[str, Any], data: dict[str, Any], provider: dict[str, Any], computed: Any) -> None:
        self._m, self._resources, self._data, self._provider, self._computed = messages, resources, data, provider, computed

    def calls(self) -> Iterable[tuple[str, Any, Callable[[Any], Any]]]:
        """(name, message of the request, what answers it)."""
        m = self._m
        yield "GetMetadata", m.Empty, _unsupported
        yield "GetProviderSchema", m.Empty, self.schemas
        yield "ValidateProviderConfig", m.ValidateProvider, lambda _: m.ValidateProviderAnswer()
        yield "ValidateResourceConfig", m.Validate, lambda _: m.Diagnostics()
        yield "ValidateDataResourceConfig", m.Validate, lambda _: m.Diagnostics()
        yield "ConfigureProvider", m.Empty, lambda _: m.Diagnostics()
        yield "UpgradeResourceState", m.Upgrade, lambda asked: m.State(state=m.Value(json=asked.raw_state.json))
        yield "ReadResource", m.Read, lambda asked: m.State(state=asked.current_state)
        yield "ReadDataSource", m.Validate, self.read
        yield "PlanResourceChange", m.Plan, self.plan
        yield "ApplyResourceChange", m.Apply, lambda asked: m.Applied(new_state=asked.planned_state)
        yield "ImportResourceState", m.Import, self.take
        yield "StopProvider", m.Empty, lambda _: m.Empty()

    def schemas(self, _: Any) -> Any:
        m = self._m
        made = m.Schemas(provider=m.Schema(block=block(m, self._provider)))
        for known, into in ((self._resources, made.resource_schemas), (self._data, made.data_source_schemas)):
            for kind, fields in known.items():
                into[kind].CopyFrom(m.Schema(block=block(m, fields)))
        return made

    def plan(self, asked: Any) -> Any:
        path = self._m.AttributePath
        replaced = [path(steps=[path.Step(attribute_name=name)]) for name in self._made_anew(asked)]
        planned = self._told(asked.type_name, self._resources, asked.proposed_new_state)
        return self._m.Planned(planned_state=planned, requires_replace=replaced, legacy_type_system=True)

    def _made_anew(self, asked: Any) -> list[str]:
        """Arguments whose change the real service answers with another resource."""
        before, after = (msgspec.msgpack.decode(value.msgpack) for value in (asked.prior_state, asked.proposed_new_state))
        if before is None or after is None:
            return []
        fixed = [name for name, kind in self._resources[asked.type_name].items() if isinstance(kind, str) and "~" in kind]
        return [name for name in fixed if before.get(name) != after.get(name)]

    def read(self, asked: Any) -> Any:
        return self._m.State(state=self._told(asked.type_name, self._data, asked.config))

    def take(self, asked: Any) -> Any:
        """Import: all that is known of what is there already is its name."""
        fields = self._resources[asked.type_name]
        empty: dict[str, Any] = {(nested[1] if (nested := BLOCK.match(key)) else key): [] if nested else None for key in fields}
        state = self._m.Value(msgpack=msgspec.msgpack.encode({**empty, "id": asked.id, "name": asked.id}))
        return self._m.Imported(imported_resources=[self._m.Imported.Resource(type_name=asked.type_name, state=state)])

    def _told(self, kind: str, known: dict[str, Any], value: Any) -> Any:
        values = msgspec.msgpack.decode(value.msgpack)
        if values is None:  # a destroy
            return value
        told = filled(known[kind], values, self._computed(kind, values))
        return self._m.Value(msgpack=msgspec.msgpack.encode(told))


def _unsupported(_: Any) -> Any:
    raise NotImplementedError


def serve() -> None:
    """Say where we listen, as Terraform's plugins do, and answer until it says to stop or is gone."""
    sys.path[:0] = [str(HERE), str(HERE.parents[2])]
    messages = grpc.protos("tfplugin6.proto")
    from tests.terraform.stub.schemas import DATA, PROVIDER, RESOURCES, computed

    provider = Provider(messages, RESOURCES, DATA, PROVIDER, computed)
    empty = messages.Empty
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            lambda asked, context, answer=answer: answer(asked),
            request_deserializer=message.FromString,
            response_serializer=lambda told: told.SerializeToString(),
        )
        for name, message, answer in provider.calls()
        if answer is not _unsupported
    }

    def shutdown(asked: Any, context: Any) -> Any:
        threading.Timer(0.01, os._exit, (0,)).start()
        return empty()

    control = grpc.unary_unary_rpc_method_handler(shutdown, empty.FromString, lambda told: told.SerializeToString())
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler("tfplugin6.Provider", handlers),
            grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": control}),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"1|6|tcp|127.0.0.1:{port}|grpc|\n")
    sys.stdout.flush()
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)


if __name__ == "__main__":
    serve()
