"""Where the text may come from, as a scenario says it. Torch-free."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from trainer.strict import Strict

UINT16_VOCAB = 65_536
Vocab = Annotated[int, Field(ge=257, le=UINT16_VOCAB)]


class StdlibData(Strict):
    """The running interpreter's own library source, tests left out: nothing to download."""

    source: Literal["python-stdlib"] = "python-stdlib"
    vocab: Vocab = Field(1024, description="Byte-level BPE entries.")


class TextData(Strict):
    """One text file, or every `*.txt` below a folder; each file is a document."""

    source: Literal["text"]
    path: str = Field(description="File or folder; relative to the scenario file.")
    vocab: Vocab = Field(1024, description="Byte-level BPE entries.")


class WikiData(Strict):
    """10,033 English Wikipedia summaries (CC BY-SA 4.0), 5 MB, from a wheel on PyPI."""

    source: Literal["wiki-summaries"]
    shard_by: Literal["topic"] | None = Field(
        None, description="Replicas train on different topics; null: all on all."
    )
    vocab: Vocab = Field(1024, description="Byte-level BPE entries.")


class JsonlData(Strict):
    """A file of JSON objects, one a line, or every `*.jsonl` below a folder."""

    source: Literal["jsonl"]
    path: str = Field(description="File or folder; relative to the scenario file.")
    text: str = Field("text", description="The key that holds a document.")
    shard_by: str | None = Field(
        None, description="Key by whose values replicas train on different documents."
    )
    vocab: Vocab = Field(1024, description="Byte-level BPE entries.")


class ParquetData(Strict):
    """A Parquet file, or every `*.parquet` below a folder; each row is a document."""

    source: Literal["parquet"]
    path: str = Field(description="File or folder; relative to the scenario file.")
    text: str = Field("text", description="The column that holds a document.")
    shard_by: str | None = Field(
        None, description="Column by whose values replicas train on different documents."
    )
    vocab: Vocab = Field(1024, description="Byte-level BPE entries.")


class BinData(Strict):
    """Token files: nanoGPT's bare uint16, or llm.c's with a header (uint16; llama-3: uint32)."""

    source: Literal["bin"]
    path: str = Field(description="File, or folder of `*.bin`; relative to the scenario file.")
    held_out: str | None = Field(
        None, description="Held-out tokens, likewise; null: a 20th of `path`."
    )
    vocab: int = Field(ge=2, le=1 << 24, description="Entries of the tokenizer that made them.")
    bytes_per_token: float = Field(
        gt=0, description="UTF-8 bytes a token stands for on average, for bits per byte."
    )
    end_of_text: int | None = Field(
        None,
        ge=0,
        description="Id between documents, to hold out whole ones; null: hold out the end.",
    )

    @model_validator(mode="after")
    def _end_of_text_is_a_token(self) -> BinData:
        if self.end_of_text is not None and self.end_of_text >= self.vocab:
            raise ValueError(
                f"end_of_text must be below vocab (got {self.end_of_text} and {self.vocab})"
            )
        return self


Data = Annotated[
    StdlibData | TextData | WikiData | JsonlData | ParquetData | BinData,
    Field(discriminator="source"),
]
