"""The shop's one job."""

from holdfast import App, Job, SyncContext, stage

app = App("shop")


@app.job()
class PlaceOrder(Job[int]):
    @stage()
    def place(self, ctx: SyncContext, number: int) -> int:
        return number
