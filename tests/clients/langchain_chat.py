"""langchain-tests' integration suite for chat models, over the three clients that speak to this server.

Run by pytest. BASE and MODEL come from the environment. A small model does not choose to call a tool by itself, so the tests that hope for it are
given `tool_choice`; what they check is what comes over the wire.
"""
import os

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_ollama import ChatOllama
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

BASE = os.environ["BASE"]
MODEL = os.environ["MODEL"]
KEY = os.environ.get("KEY", "none")


class Small(ChatModelIntegrationTests):
    """What holds for any small model."""

    @property
    def has_tool_choice(self):
        return True

    @property
    def supports_image_inputs(self):
        return False

    @property
    def enable_vcr_tests(self):
        return False


def forced(payload):
    """Demands a call where functions are offered and none has answered yet, and an answer afterwards."""
    if payload.get("tools") and "tool_choice" not in payload:
        payload["tool_choice"] = "none" if answered(payload["messages"]) else "required"
    return payload


def answered(messages):
    return any(message["role"] == "tool" for message in messages)


class ForcedOpenAI(ChatOpenAI):
    def _get_request_payload(self, input_, *, stop=None, **kwargs):
        return forced(super()._get_request_payload(input_, stop=stop, **kwargs))


class TestOpenAI(Small):
    @property
    def chat_model_class(self):
        return ForcedOpenAI

    @property
    def chat_model_params(self):
        return {
            "model": MODEL,
            "base_url": f"{BASE}/v1",
            "api_key": KEY,
            "temperature": 0,
            "max_tokens": 400,
            "max_retries": 0,
            "seed": 1,
            "stream_usage": True,
        }


class TestOllama(Small):
    """Ollama's API cannot demand a call: what needs one is left out, and its calls are tested by the client's own test."""

    @property
    def chat_model_class(self):
        return ChatOllama

    @property
    def chat_model_params(self):
        headers = {"authorization": f"Bearer {KEY}"}
        return {"model": MODEL, "base_url": BASE, "temperature": 0, "num_predict": 400, "seed": 1, "client_kwargs": {"headers": headers}}

    @property
    def has_tool_calling(self):
        return False

    @property
    def structured_output_kwargs(self):
        return {"method": "json_schema"}

    @property
    def has_structured_output(self):
        return True


class ForcedAnthropic(ChatAnthropic):
    def _get_request_payload(self, input_, *, stop=None, **kwargs):
        payload = super()._get_request_payload(input_, stop=stop, **kwargs)
        if payload.get("tools") and "tool_choice" not in payload:
            blocks = [b for m in payload["messages"] if isinstance(m["content"], list) for b in m["content"]]
            done = any(b.get("type") == "tool_result" for b in blocks)
            payload["tool_choice"] = {"type": "none" if done else "any"}
        return payload


class TestAnthropic(Small):
    @property
    def chat_model_class(self):
        return ForcedAnthropic

    @property
    def chat_model_params(self):
        return {"model": MODEL, "base_url": BASE, "api_key": KEY, "temperature": 0, "max_tokens": 400, "max_retries": 0}
