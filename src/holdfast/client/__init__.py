"""Jobs from code that is no job: `Client`, and `SyncClient` for code without `await`."""

from holdfast.client.async_client import Client as Client
from holdfast.client.sync_client import SyncClient as SyncClient
